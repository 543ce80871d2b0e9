//% for slot in k.slots
EC_DEVICE ${slot.ctype} ${slot.name}(${slot.parameters}) {
//%   for line in slot.lines
${line}
//%   endfor
  return ${slot.value};
}

//% endfor
//% if f.store
EC_DEVICE ${f.store.ctype} ${f.name}(${f.parameters ~ ", " if f.parameters else ""}${f.ctype} sum) {
//%   for line in f.lines
${line}
//%   endfor
  return ${f.value};
}

EC_DEVICE void ${f.store.name}(${f.store.parameters}, ${f.store.ctype} value) {
//%   for line in f.store.lines
${line}
//%   endfor
  ${f.store.value}
}
//% else
EC_DEVICE void ${f.name}(${f.parameters}, ${f.ctype} sum) {
//% for line in f.lines
${line}
//% endfor
}
//% endif
