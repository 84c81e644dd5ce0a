// What things cost, and what a whole replay comes to. A cost is a line in the step's sizes: intercept, slope in what
// ran just before, slopes; one line a draw of the fit, the first at the fit itself; and what the fit left over.

// Half-way cases to the even neighbour, as Python rounds.
function round(value) {
  const near = Math.round(value);
  return near - value === 0.5 && near % 2 ? near - 1 : near;
}

// draw: 0 at the fit without noise; luck, place: which of the left-overs a draw adds.
function pricer(sizes, draw, luck, place) {
  return (cost, past, signed) => {
    if (!cost) return 0;
    const line = cost.lines[Math.min(draw, cost.lines.length - 1)], left = cost.residuals;
    let grown = 0;
    for (let i = 0; i < cost.sizes.length; i++) grown += line[i + 2] * sizes[cost.sizes[i]];
    if (line[1]) grown += line[1] * Math.log2(1 + past / MODEL.idleUnitNs);
    let ns = line[0] + grown;
    if (draw && left.length) ns += left[(Math.floor(luck * left.length) + place) % left.length];
    ns = round(ns);
    return signed ? ns : Math.max(0, ns);
  };
}

const scaled = (cost, by) => cost && { ...cost, lines: cost.lines.map(line => line.map(each => each * by)), residuals: cost.residuals.map(each => round(each * by)) };

// The setting with some costs scaled: { "host.decide": 0.5, "device.draft": 2 }. As `--set decide=x0.5` does it.
function withFactors(setting, factors) {
  if (!Object.values(factors).some(by => by !== 1)) return setting;
  const ofHost = key => factors[`host.${MODEL.ops[key].name}`] ?? 1, ofDevice = name => factors[`device.${name}`] ?? 1;
  const each = (table, change) => Object.fromEntries(Object.entries(table).map(([key, cost]) => [key, change(key, cost)]));
  const costs = each(setting.costs, (_, { host, device }) => ({
    host: each(host, (key, cost) => ({ ...cost, pre: scaled(cost.pre, ofHost(key)), post: scaled(cost.post, ofHost(key)) })),
    device: each(device, (name, cost) => ({ ...cost, duration: scaled(cost.duration, ofDevice(name)) })),
  }));
  return { ...setting, costs };
}

// Replay every step of a plan. seen(index, ops, span) is told of each step while its times are on the ops.
// luck: the left-over that each block of anchors draws, with draw: 1 or more. Returns the tokens and the ns of the
// decode steps at the full batch.
function replay(setting, order, plan, { draw = 0, luck = [], seen } = {}) {
  const programs = [
    compileStep("prefill", MODEL.prefill, setting),
    compileStep("decode", order.map(slot => slot.full).filter(Boolean), setting),
    plan.kind.includes(2) ? compileStep("decode", order.map(slot => slot.pruned).filter(Boolean), setting) : null,
  ];
  const machine = { ...newMachine(), gap: setting.gap };
  let tokens = 0, ns = 0;
  plan.kind.forEach((kind, index) => {
    const sizes = plan.sizes.map(column => Array.isArray(column) ? column[index] : column);
    const span = runStep(programs[kind], machine, pricer(sizes, draw, luck[plan.drawAt[index]], plan.drawOffset[index]));
    if (seen) seen(index, programs[kind], span);
    if (kind && plan.batch[index] === plan.fullBatch) { tokens += plan.tokens[index]; ns += span.end - span.start; }
  });
  return { tokens, ns, perSecond: tokens * 1e9 / ns };
}

// The mean log ratio of paired draws and its interval; without draws the ratio of the two replays alone.
function ratioOf(ours, theirs, spread) {
  const logs = ours.map((run, i) => Math.log(run.perSecond / theirs[i].perSecond));
  const mean = logs.reduce((sum, each) => sum + each, 0) / logs.length;
  if (logs.length < 2) return { ratio: Math.exp(mean) };
  const half = spread * Math.sqrt(logs.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (logs.length - 1));
  return { ratio: Math.exp(mean), low: Math.exp(mean - half), high: Math.exp(mean + half) };
}
