//% for slot in k.slots
EC_DEVICE ${slot.ctype} ${slot.name}(${slot.parameters}) {
//%   for line in slot.lines
${line}
//%   endfor
  return ${slot.value};
}

//% endfor
EC_DEVICE void ${f.name}(${f.parameters}, ${f.ctype} sum) {
//% for line in f.lines
${line}
//% endfor
}
