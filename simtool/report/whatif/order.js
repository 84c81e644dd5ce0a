// Which orders are steps. The ops, what they need and what they give come from simtool's catalogue; the sentences are
// those of its own check, and a test holds them equal.

const quoted = name => `'${name}'`;

// Why an order of slots cannot be run, or "" where it can. Slots are moved only, so none is missing or there twice.
function whyNot(placement, order) {
  for (const pruned of placement.decides ? [true, false] : [false]) {
    const ops = order.map(slot => pruned ? slot.pruned : slot.full).filter(Boolean).map(key => MODEL.ops[key]);
    const why = unbound(placement, ops.map(op => op.name)) || missing(placement, ops);
    if (why) return why;
  }
  let decided = false;
  for (const slot of order) {
    decided ||= slot.full !== null && MODEL.ops[slot.full].name === "decide";
    if (slot.pruned !== slot.full && !decided) return `${placement.name}: ${slot.name} depends on the prune, so 'decide' must come before it`;
  }
  return "";
}

function unbound(placement, names) {
  for (const [rebind, launch] of Object.entries(MODEL.rebinds))
    if (names.includes(rebind) && names.indexOf(rebind) > names.indexOf(launch))
      return `${placement.name}: ${quoted(rebind)} comes after ${quoted(launch)}; the graph would run unbound`;
  return "";
}

function missing(placement, ops) {
  const given = new Set(), readers = new Map(), names = ops.map(op => op.name);
  for (const op of ops) {
    for (const need of op.needs) {
      if (!given.has(need)) {
        const givers = MODEL.catalogue.filter(name => MODEL.ops[name].gives.includes(need));
        const later = givers.find(name => names.includes(name));
        const where = later ? `${quoted(later)} gives it, but only later` : `add ${givers.map(quoted).join(" or ")} before it`;
        return `${placement.name}: ${quoted(op.name)} needs ${need}: ${where}`;
      }
      readers.set(need, op.name);
    }
    for (const datum of op.gives)
      if (readers.has(datum)) return `${placement.name}: ${quoted(op.name)} replaces ${datum}, which ${quoted(readers.get(datum))} has read`;
    op.gives.forEach(datum => given.add(datum));
    if (placement.lag && MODEL.givenAtLag[op.name]) given.add(MODEL.givenAtLag[op.name]);
  }
  return "";
}

const moved = (order, from, to) => {
  const rest = order.filter((_, i) => i !== from);
  return [...rest.slice(0, to), order[from], ...rest.slice(to)];
};
