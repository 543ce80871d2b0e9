//# What all kernels begin with.
//#
//# places: where the operands of a kernel lie, in elements of the weights or of the memory.
//% macro places(k)
struct ${k.name}_places { ${k.placed|join(": i32, ")}: i32 }
@group(0) @binding(2) var<uniform> ${k.name}_at: ${k.name}_places;
//%- endmacro
//#
//# head: the function up to the numbers of the work-group, of which there are ``groups``, and of the thread in it.
//% macro head(k, name, groups)
@compute @workgroup_size(${k.threads})
fn ${name}(@builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) blocks: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let thread = i32(local);
  let group = ec_group(block, blocks);
  if (group >= ${groups}) { return; }
//%- endmacro
//#
//# slot_function: a function of a slot: its lines, and its value where it returns one.
//% macro slot_function(slot, more="", returns=true)
//% set kind = "vec4f" if slot.lanes > 1 else slot.scalar
fn ${slot.name}(${slot.parameters}${", " if slot.parameters and more}${more ~ ": " ~ kind if more}) ${"-> %s " % kind if returns}{
//%   for line in slot.lines
${line}
//%   endfor
//%   if returns
  return ${slot.value};
//%   endif
}
//%- endmacro
