// The critical path of one step: back from its end along whatever was ready last. The same rule as simtool's analysis.

// What a step was made of, in an order in which every wait looks back: host segments (two where an op waits) and work.
function nodesOf(ops) {
  const nodes = [];
  ops.forEach((op, flow) => {
    const host = { name: op.name, lane: "host", flow, op, host: true };
    nodes.push({ ...host, rank: 0, start: op.start, end: op.blocks ? op.waitStart : op.end });
    if (op.blocks) nodes.push({ ...host, rank: 2, start: op.waitEnd, end: op.end, resumed: true });
    for (const work of [...op.works].sort((a, b) => a.lane < b.lane ? -1 : 1)) { // a tie goes by lane, as in a trace
      const late = op.blocks && work.start >= op.waitEnd && work.end > op.waitEnd;
      nodes.push({ ...work, flow, rank: late ? 3 : 1, host: false });
    }
  });
  return nodes.sort((a, b) => a.start - b.start || a.flow - b.flow || a.rank - b.rank);
}

// Each node's candidates in the order in which ties go to them; the one that was ready last binds it.
function bind(nodes) {
  const CLOCKS_NS = 1000;
  const queues = [...new Set(nodes.filter(node => !node.host).map(node => node.executor))].sort();
  nodes.forEach((node, at) => {
    const before = nodes.slice(0, at), last = test => before.findLast(test);
    const over = within => other => other && other.end <= node.start + within;
    const found = [];
    if (!node.host) {
      const launch = last(other => other.host && other.flow === node.flow);
      found.push(...[last(other => other.executor === node.executor)].filter(over(0)));
      found.push(...[last(other => !other.host && other.flow === node.flow)].filter(over(0)));
      for (const need of launch.op.needs) {
        const giver = last(other => other.host && !other.resumed && other.op.gives.includes(need));
        if (giver) found.push(...before.filter(other => !other.host && other.flow === giver.flow));
      }
      found.push(launch);
    } else {
      if (node.resumed) {
        const own = before.filter(other => !other.host && other.flow === node.flow).filter(over(CLOCKS_NS));
        found.push(...(own.length ? own : queues.map(queue => before.filter(other => other.executor === queue).slice(-2).findLast(over(CLOCKS_NS))).filter(Boolean)));
      }
      const thread = last(other => other.host);
      if (thread) found.push(thread);
    }
    node.binding = null;
    for (const other of found) {
      const ready = Math.min(other.end, node.start);
      if (!node.binding || ready > node.bound) Object.assign(node, { binding: other, bound: ready });
    }
  });
}

// Segments { part, name, lane, start, end } from the step's start to its end, without gap or overlap.
function criticalPath(ops, span) {
  const nodes = nodesOf(ops), segments = [];
  bind(nodes);
  const ending = node => Math.min(node.end, span.end);
  let node = nodes.reduce((best, other) => !best || ending(other) > ending(best) || ending(other) === ending(best) && other.host >= best.host ? other : best, null);
  let time = span.end;
  const back = (part, to) => {
    const start = Math.max(to, span.start);
    if (start < time) segments.push({ part, name: node ? node.name : "", lane: node ? node.lane : "host", start, end: time });
    time = Math.min(start, time);
  };
  while (time > span.start) {
    if (!node) { back("gap", span.start); break; }
    back("gap", node.end);
    back(node.host ? "host" : "device", node.start);
    const before = node.binding;
    if (before) back(before.host === node.host ? "gap" : before.host ? "launch" : "wake", node.bound);
    node = before;
  }
  return segments.reverse();
}
