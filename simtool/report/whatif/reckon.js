// What is chosen, and what is reckoned from it.
const $$ = id => document.getElementById(id);
const FACTORS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];
const chosen = { ...MODEL.start, factors: {}, orders: {}, step: null, zoom: 0 };
const kept = new Map(); // replays of what has not been changed

const grid = () => MODEL.grids[chosen.sl];
const point = () => grid().concurrencies[chosen.concurrency];
const placementOf = name => grid().placements.find(each => each.name === name);
const planOf = name => point().plans[point().placements[name].plan];
const orderOf = name => chosen.orders[name] || placementOf(name).order;
const changedCosts = () => Object.values(chosen.factors).some(by => by !== 1);

// One replay a draw of the costs; without draws, the one at the fit itself.
function runs(setting, order, plan) {
  const draws = point().luck.length ? point().luck.map((luck, i) => ({ draw: i + 1, luck })) : [{}];
  const steps = plan.kind.filter((kind, i) => kind && plan.batch[i] === plan.fullBatch).length;
  return draws.map(draw => ({ steps, ...replay(setting, order, plan, draw) }));
}

function asItStands(name) {
  const key = [chosen.sl, chosen.concurrency, name].join();
  if (!kept.has(key)) kept.set(key, { runs: runs(grid(), placementOf(name).order, planOf(name)), lengths: lengths(name) });
  return kept.get(key);
}

// Length of each step at the full batch, without noise: [step, ns, kind].
function lengths(name) {
  const plan = planOf(name), found = [];
  const seen = (index, _, span) => { if (plan.kind[index] && plan.batch[index] === plan.fullBatch) found.push([index, span.end - span.start, plan.kind[index]]); };
  replay(grid(), placementOf(name).order, plan, { seen });
  return found;
}

// The step of median length, among those that prune if most do.
function usualStep(name) {
  const all = asItStands(name).lengths, kind = 2 * all.filter(each => each[2] === 2).length >= all.length ? 2 : 1;
  const usual = all.filter(each => each[2] === kind).sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  return usual[usual.length >> 1][0];
}

function compared(ours, theirs, name) {
  const found = ratioOf(ours, theirs, grid().spread), own = point().placements[name].ends;
  if (found.low === undefined && own) return { ...found, low: found.ratio * own[0], high: found.ratio * own[1] };
  return found;
}

function reckon() {
  const name = chosen.placement, setting = withFactors(grid(), chosen.factors), order = orderOf(name), plan = planOf(name);
  const stands = asItStands(name), moved = Boolean(chosen.orders[name]), changed = changedCosts() || moved;
  const base = changedCosts() ? runs(setting, placementOf(MODEL.baseline).order, planOf(MODEL.baseline)) : asItStands(MODEL.baseline).runs;
  const ours = changed ? runs(setting, order, plan) : stands.runs;
  const isBase = name === MODEL.baseline && !moved;
  let step = null;
  replay(setting, order, plan, { seen: (index, ops, span) => {
    if (index === chosen.step) step = { ops: snapshot(ops), span, path: criticalPath(ops, span) };
  } });
  return {
    name, changed, ours, step,
    before: changed ? stands.lengths.find(each => each[0] === chosen.step)[1] : 0,
    found: isBase ? null : compared(ours, base, name),
    worth: changed ? compared(ours, stands.runs, name) : null,
  };
}
