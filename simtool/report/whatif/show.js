// What is shown of it. Texts go in as text, never as HTML.
function show() {
  if (chosen.step === null || !asItStands(chosen.placement).lengths.some(each => each[0] === chosen.step)) chosen.step = usualStep(chosen.placement);
  const now = reckon(), { concurrency } = point();
  $$("answer").textContent = answerText(now.name, concurrency, grid().sl, now.found, now.changed, point().placements[now.name].extrapolated);
  $$("worth").textContent = worthText(now.ours);
  $$("change").textContent = now.worth ? `Your changes: ${ratioText(now.worth, `${now.name} as it stands`)}` : "";
  list($$("caveats"), point().placements[now.name].caveats);
  $$("concurrency-told").textContent = concurrency;
  $$("sl-told").textContent = grid().sl;
  const all = asItStands(now.name).lengths, at = all.findIndex(each => each[0] === chosen.step);
  Object.assign($$("step"), { max: all.length - 1, value: at });
  $$("step-told").textContent = `${chosen.step}, ${all[at][2] === 2 ? "pruned" : "full width"}`;
  $$("zoom-told").textContent = `x${zoom().toFixed(zoom() < 10 ? 1 : 0)}`;
  showCosts(now.step);
  picture(now);
  showPath(now.step);
  $$("command").textContent = commandText(now);
  document.body.dataset.shown = "yes";
}

const zoom = () => 1.5 ** chosen.zoom;

function picture(now) {
  const box = $$("scroll"), centre = (box.scrollLeft + box.clientWidth / 2) / (box.firstChild?.clientWidth || box.scrollWidth || 1);
  const svg = drawStep(now.step, now.before, Math.max(box.clientWidth, 200) * zoom(), text => { $$("pointed").textContent = text; });
  box.replaceChildren(svg);
  box.scrollLeft = centre * svg.clientWidth - box.clientWidth / 2;
  const length = now.step.span.end - now.step.span.start;
  box.setAttribute("aria-label", `Step ${chosen.step} of ${now.name}: ${tell(length)}${now.before ? `, as it stands ${tell(now.before)}` : ""}. The table below lists what bounds it.`);
}

function showPath(step) {
  const sums = new Map(), words = { launch: "launch", wake: "wake-up", gap: "hand-over" }, length = step.span.end - step.span.start;
  for (const { part, name, lane, start, end } of step.path) {
    const key = words[part] ? `${words[part]}|` : `${name}|${lane}`;
    sums.set(key, (sums.get(key) || 0) + end - start);
  }
  const rows = [...sums].sort((a, b) => b[1] - a[1]).map(([key, ns]) => {
    const row = document.createElement("tr"), [name, lane] = key.split("|"), meter = document.createElement("meter");
    Object.assign(meter, { max: length, value: ns, title: `${(ns / length * 100).toFixed(1)} %` });
    for (const text of [name, lane, tell(ns)]) row.append(cell(text));
    row.append(cell(`${(ns / length * 100).toFixed(1)} % `));
    row.lastChild.append(meter);
    return row;
  });
  const most = 8;
  $$("path").replaceChildren(...rows.slice(0, most));
  $$("rest").replaceChildren(...rows.slice(most));
  $$("rest-title").textContent = `The other ${Math.max(rows.length - most, 0)}`;
}

function cell(text) {
  const made = document.createElement("td");
  made.textContent = text;
  return made;
}

function list(place, lines) {
  place.hidden = !lines.length;
  place.replaceChildren(...lines.map(line => Object.assign(document.createElement("li"), { textContent: line })));
}

function commandText(now) {
  const sets = Object.entries(chosen.factors).filter(([, by]) => by !== 1).map(([name, by]) => `--set ${shell(`${name}=x${by}`)}`);
  const mine = chosen.orders[now.name], policy = mine ? "mine.toml" : now.name;
  const policies = [...new Set([MODEL.baseline, policy])].map(each => `--policy ${shell(each)}`);
  const command = [...grid().command, ...policies, `--concurrency ${point().concurrency}`, ...sets].join(" ");
  return mine ? `# mine.toml\n${toml(placementOf(now.name), mine, "mine")}\n${command}` : command;
}

let pending = 0;
function soon() {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(show);
}
