//# combine: every member of a team gets the reduction ``p`` over what all of them have accumulated. Partial results go
//# through local memory, whose number is halved in every step. Where a team is a work-group and the device has sub-groups,
//# these add up first. The accumulator of work-item ``member`` and the next member's are ``k.neighbors`` elements apart.
//% macro combine(k, p)
  EC_SHARED float ${p.accumulator}_parts[${k.threads}];
//%   if p.by_sub_groups
  ${p.accumulator} = sub_group_reduce_add(${p.accumulator});
  if (get_sub_group_local_id() == 0) ${p.accumulator}_parts[get_sub_group_id()] = ${p.accumulator};
  ec_barrier();
  ${p.accumulator} = ${p.accumulator}_parts[0];
  for (ec_int other = 1; other < (ec_int)get_num_sub_groups(); ++other) ${p.accumulator} += ${p.accumulator}_parts[other];
//%   else
  ${p.accumulator}_parts[ec_thread()] = ${p.accumulator};
  ec_barrier();
  for (ec_int step = ${k.team // 2}; step > 0; step /= 2) {
    if (member < step) {
      const float other = ${p.accumulator}_parts[ec_thread() + step * ${k.neighbors}];
      ${p.merge}
      ${p.accumulator}_parts[ec_thread()] = ${p.accumulator};
    }
    ec_barrier();
  }
  ${p.accumulator} = ${p.accumulator}_parts[ec_thread() - member * ${k.neighbors}];
//%   endif
//%- endmacro
