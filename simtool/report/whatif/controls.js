// What can be touched: sliders, placements, the host's order. Texts go in as text, never as HTML.

const hostTime = op => op.end - op.start - (op.blocks ? op.waitEnd - op.waitStart : 0);

// The sliders of the ops that the placement runs, draft and decide up front, the others by lane.
function makeCosts() {
  const placement = placementOf(chosen.placement), byLane = new Map([["host", new Map()], ["prepare", new Map()], ["compute", new Map()], ["copy", new Map()]]);
  for (const slot of placement.order) for (const key of [slot.pruned, slot.full]) {
    if (!key) continue;
    const op = MODEL.ops[key];
    byLane.get("host").set(`host.${op.name}`, op.what);
    for (const work of op.works) byLane.get(work.lane).set(`device.${work.name}`, `device work of ${op.name}`);
  }
  const up = ["device.draft", "host.decide"].flatMap(name => [...byLane.values()].filter(each => each.has(name)).map(each => slider(name, each.get(name))));
  $$("front").replaceChildren(...up);
  $$("groups").replaceChildren(...[...byLane].filter(([, works]) => works.size).map(([lane, works]) => {
    const group = document.createElement("details"), title = document.createElement("summary"), box = document.createElement("div");
    title.textContent = lane === "host" ? `Every op on the host (${works.size})` : `Device work on the ${lane} lane (${works.size})`;
    box.className = "costs";
    box.append(...[...works].map(([name, what]) => slider(name, what)));
    group.append(title, box);
    return group;
  }));
}

function slider(name, what) {
  const label = document.createElement("label"), text = document.createElement("span"), input = document.createElement("input"), told = document.createElement("output");
  text.textContent = name.replace(/^host\./, "").replace(/^device\.(.*)/, "$1 (device)");
  label.title = what;
  label.dataset.cost = name;
  Object.assign(input, { type: "range", min: 0, max: FACTORS.length - 1, step: 1, value: FACTORS.indexOf(chosen.factors[name] ?? 1) });
  input.addEventListener("input", () => { chosen.factors[name] = FACTORS[input.value]; soon(); });
  input.addEventListener("dblclick", () => { input.value = 10; chosen.factors[name] = 1; soon(); });
  label.append(text, input, told);
  return label;
}

function showCosts(step) {
  const times = new Map();
  for (const op of step.ops) {
    times.set(`host.${op.name}`, hostTime(op));
    for (const work of op.works) times.set(`device.${work.name}`, work.end - work.start);
  }
  for (const label of document.querySelectorAll("[data-cost]")) {
    const name = label.dataset.cost, by = chosen.factors[name] ?? 1, [, input, told] = label.children;
    const time = times.has(name) ? tell(times.get(name)) : "not in this step";
    input.value = FACTORS.indexOf(by);
    told.textContent = by === 1 ? time : `x${by}: ${time}`;
    input.setAttribute("aria-valuetext", told.textContent);
    label.classList.toggle("changed", by !== 1);
  }
}

function showOrder(focus, refused) {
  const stands = placementOf(chosen.placement).order;
  const items = orderOf(chosen.placement).map((slot, i) => {
    const item = document.createElement("li"), handle = document.createElement("span"), text = document.createElement("span"), op = MODEL.ops[slot.pruned || slot.full];
    Object.assign(handle, { className: "handle", textContent: "\u2807", ariaHidden: "true" });
    text.textContent = op.name;
    if (slot.pruned !== slot.full) {
      const other = slot.full ? `full width: ${MODEL.ops[slot.full].name}` : "pruned steps only";
      text.append(Object.assign(document.createElement("small"), { textContent: slot.pruned ? other : "full-width steps only" }));
    }
    if (op.blocks) text.append(Object.assign(document.createElement("small"), { textContent: "waits" }));
    if (stands[i] !== slot) item.classList.add("other");
    if (refused && i === focus) item.classList.add("was-refused");
    item.style.setProperty("--kind", op.colour);
    Object.assign(item, { tabIndex: 0, title: op.what });
    item.append(handle, text);
    return item;
  });
  $$("order").replaceChildren(...items);
  if (focus !== undefined) items[focus].focus();
}

function choose(changes) {
  Object.assign(chosen, changes);
  $$("refused").textContent = "";
  makeCosts();
  showOrder();
  soon();
}

function makePlacements() {
  const names = grid().placements.map(each => each.name);
  $$("placement").replaceChildren(...names.map(name => Object.assign(document.createElement("option"), { value: name, textContent: name, selected: name === chosen.placement })));
}

// The same stop at another SL, or the nearest there is.
function atSl(sl) {
  const { concurrency } = point(), there = MODEL.grids[sl];
  const near = there.concurrencies.map((each, i) => [Math.abs(each.concurrency - concurrency), i]).sort((a, b) => a[0] - b[0])[0][1];
  const same = there.placements.some(each => each.name === chosen.placement) ? chosen.placement : MODEL.baseline;
  choose({ sl, concurrency: near, placement: same, orders: {}, step: null });
  start();
}

function start() {
  const listed = values => values.join(", ");
  makePlacements();
  Object.assign($$("concurrency"), { max: grid().concurrencies.length - 1, value: chosen.concurrency, disabled: grid().concurrencies.length < 2 });
  Object.assign($$("sl"), { max: MODEL.grids.length - 1, value: chosen.sl, disabled: MODEL.grids.length < 2 });
  const one = MODEL.grids.length < 2 ? "; a trace of another SL, given when the page is made, adds that" : "";
  $$("stops").textContent = `Replayed at concurrency ${listed(grid().concurrencies.map(each => each.concurrency))} and SL ${listed(MODEL.grids.map(each => each.sl))}${one}.`;
  const { trace, profile, device, controller } = grid(), facts = { trace, costs: profile, "measured on": device, controller, requests: planOf(MODEL.baseline).requests };
  $$("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: value })]));
}
