// What is said, in the words of the command line.
const percent = ratio => (Math.abs(ratio - 1) * 100).toFixed(1);
const signed = ratio => `${ratio < 1 ? "-" : "+"}${percent(ratio)} %`;

// "3.2 % fewer tokens/s than static (2.1 to 4.3)"; where the interval spans zero, that it cannot be told.
function ratioText(found, other) {
  const more = found.ratio >= 1 ? "more" : "fewer", size = `${percent(found.ratio)} % ${more} tokens/s`;
  if (found.low === undefined) return `${size} than ${other} (no interval)`;
  if (found.low <= 1 && found.high >= 1) return `cannot be told from ${other}: ${size} (${signed(found.low)} to ${signed(found.high)})`;
  const ends = [percent(found.low), percent(found.high)].sort((a, b) => a - b);
  return `${size} than ${other} (${ends.join(" to ")})`;
}

// far: how far costs are extrapolated; "" where they are not.
function answerText(name, concurrency, sl, found, changed, far) {
  const modeled = `modeled${far ? `, ${far}` : ""}`;
  const where = `${name}${changed ? " with your changes" : ""} at concurrency ${concurrency} and SL ${sl}`;
  if (!found) return `${modeled}: ${where} is what the others are compared with`;
  return `${modeled}: ${where}: ${ratioText(found, MODEL.baseline)}`;
}

const geometricMean = values => Math.exp(values.reduce((sum, each) => sum + Math.log(each), 0) / values.length);

function worthText(runs) {
  const mean = get => runs.reduce((sum, run) => sum + get(run), 0) / runs.length;
  const steps = mean(run => run.steps);
  return `${geometricMean(runs.map(run => run.perSecond)).toFixed(0)} tokens/s: ${(mean(run => run.tokens) / steps).toFixed(1)} tokens a step, ${tell(mean(run => run.ns) / steps)} a step, over ${steps} steps at the full batch`;
}

// A shell's word.
const shell = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;

function toml(placement, order, name) {
  const lag = placement.lag === null ? "" : `lag_steps = ${placement.lag}\n`;
  const sync = placement.sync.length ? `sync = ${JSON.stringify(placement.sync)}\n` : "";
  return `name = "${name}"\n${lag}${sync}order = [\n${order.map(slot => `    "${slot.name}",\n`).join("")}]\n`;
}
