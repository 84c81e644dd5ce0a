// Draws one step: a row a lane, a bar a piece of work, the critical path under the bars.
const LANES = ["host", "prepare", "compute", "copy"], LANE_PX = 44, BAR_PX = 26, AXIS_PX = 26, TOP_PX = 8;

function tell(ns) {
  const size = Math.abs(ns);
  if (size >= 1e6) return `${(ns / 1e6).toFixed(size < 1e7 ? 3 : 2)} ms`;
  return size >= 1e3 ? `${(ns / 1e3).toFixed(size < 1e5 ? 1 : 0)} us` : `${Math.round(ns)} ns`;
}

function draw(tag, attributes, parent) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

// The times of a step under way, kept before the next one overwrites them.
const snapshot = ops => ops.map(({ pre, post, wake, launches, works, ...op }) => ({
  ...op, works: works.map(work => ({ ...work, what: `device work of ${op.name}` })),
}));

// The bars of a step: { name, lane, start, end, colour, waits }.
function barsOf(ops) {
  return ops.flatMap(op => {
    const bar = { name: op.name, lane: "host", colour: op.colour, what: op.what };
    const host = op.blocks
      ? [{ ...bar, start: op.start, end: op.waitStart }, { ...bar, start: op.waitStart, end: op.waitEnd, waits: true }, { ...bar, start: op.waitEnd, end: op.end }]
      : [{ ...bar, start: op.start, end: op.end }];
    return [...host, ...op.works];
  }).filter(bar => bar.end > bar.start);
}

// Whether dark letters read better than light ones on a colour such as #56B4E9.
const isLight = colour => [1, 3, 5].reduce((sum, at, i) => sum + parseInt(colour.slice(at, at + 2), 16) * [0.3, 0.59, 0.11][i], 0) > 140;

// step: { ops, span, path }; before: length in ns of the step as it stands; width: px; pointed(text): a bar was pointed at.
function drawStep(step, before, width, pointed) {
  const start = step.span.start, length = step.span.end - start, longest = Math.max(length, before || 0) * 1.01;
  const x = ns => (ns - start) / longest * width, top = lane => TOP_PX + LANES.indexOf(lane) * LANE_PX;
  const height = TOP_PX + LANES.length * LANE_PX + AXIS_PX;
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const hatch = draw("pattern", { id: "wait", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draw("defs", {}, svg));
  draw("line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: "#8a94a0", "stroke-width": 1.5 }, hatch);
  for (const lane of LANES) draw("line", { class: "lane", x1: 0, x2: width, y1: top(lane) + LANE_PX - 3, y2: top(lane) + LANE_PX - 3 }, svg);
  for (const op of step.ops) for (const work of op.works) {
    draw("line", { class: "launch", x1: x(work.ready), y1: top("host") + BAR_PX, x2: x(work.start), y2: top(work.lane) }, svg);
  }
  for (const bar of barsOf(step.ops)) drawBar(svg, bar, x, top(bar.lane), start, pointed);
  drawPath(svg, step.path, x, top);
  if (before && Math.abs(before - length) > 500) {
    const at = x(start + before), end = at > width / 2;
    draw("line", { class: "before", x1: at, x2: at, y1: 0, y2: height - AXIS_PX }, svg);
    draw("text", { x: at + (end ? -5 : 5), y: top("copy") + LANE_PX - 8, "text-anchor": end ? "end" : "start" }, svg).textContent = `as it stands: ${tell(before)}`;
  }
  drawAxis(svg, longest, width, height);
  return svg;
}

function drawBar(svg, bar, x, top, zero, pointed) {
  const wide = Math.max(x(bar.end) - x(bar.start), 0.8);
  const rect = draw("rect", { x: x(bar.start), y: top, width: wide, height: BAR_PX, fill: bar.waits ? "url(#wait)" : bar.colour }, svg);
  const told = `${bar.name}${bar.waits ? ", waiting" : ""}: ${((bar.start - zero) / 1e6).toFixed(3)} to ${((bar.end - zero) / 1e6).toFixed(3)} ms (${tell(bar.end - bar.start)}), ${bar.lane}`;
  draw("title", {}, rect).textContent = told;
  rect.addEventListener("click", () => {
    svg.querySelectorAll(".picked").forEach(other => other.classList.remove("picked"));
    rect.classList.add("picked");
    pointed(`${told}. ${bar.what}`);
  });
  rect.addEventListener("pointerenter", () => pointed(`${told}. ${bar.what}`));
  if (!bar.waits && wide > bar.name.length * 6.6 + 8) {
    const ink = isLight(bar.colour) ? "#1f2933" : "#ffffff";
    draw("text", { class: "on", x: x(bar.start) + 4, y: top + 17, style: `fill:${ink}` }, svg).textContent = bar.name;
  }
}

function drawPath(svg, path, x, top) {
  const line = lane => top(lane) + BAR_PX + 6;
  path.forEach((part, i) => {
    const running = part.part === "host" || part.part === "device", y = line(part.lane);
    draw("line", { class: running ? "path" : "path latency", x1: x(part.start), x2: Math.max(x(part.end), x(part.start) + 0.6), y1: y, y2: y }, svg);
    const next = path[i + 1];
    if (next && next.lane !== part.lane) draw("line", { class: "path latency", x1: x(part.end), x2: x(part.end), y1: y, y2: line(next.lane) }, svg);
  });
}

function drawAxis(svg, longest, width, height) {
  const ms = longest / 1e6, wanted = Math.max(width / 110, 2);
  const every = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find(each => ms / each <= wanted) || 5000;
  for (let at = 0; at <= ms; at += every) {
    const x = at / ms * width;
    draw("line", { class: "launch", x1: x, x2: x, y1: height - AXIS_PX, y2: height - AXIS_PX + 5 }, svg);
    draw("text", { x, y: height - 6, "text-anchor": at ? "middle" : "start" }, svg).textContent = `${+at.toFixed(3)}${at ? "" : " ms"}`;
  }
}
