EC_DEVICE ${s.ctype} ${s.name}(${s.parameters}) {
//% for line in s.lines
${line}
//% endfor
  return ${s.value};
}

EC_DEVICE ${l.ctype} ${l.name}(${l.parameters}) {
//% for line in l.lines
${line}
//% endfor
  return ${l.value};
}

EC_DEVICE void ${f.name}(${f.parameters}, ${f.ctype} sum) {
//% for line in f.lines
${line}
//% endfor
}

