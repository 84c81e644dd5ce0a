// Unfolds plotly.js and the figures, then draws each figure when it comes into view. No request is made.
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// the figures are made for white paper; what is ink, paper or line takes the page's own colours
function dressed(figure) {
  const swap = new Map([["#1f2933", css("--ink")], ["#ffffff", css("--paper")], ["#e6e9ed", css("--line")], ["#8a94a0", css("--faint")]]);
  const inked = JSON.parse(JSON.stringify(figure), (_, value) =>
    typeof value === "string" && swap.has(value.toLowerCase()) ? swap.get(value.toLowerCase()) : value);
  const layout = inked.layout;
  Object.assign(layout, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { ...layout.font, color: css("--ink") } });
  return inked;
}

// a figure's own menu as buttons above it, which keys reach too and for which a phone has room
function buttonsAbove(place, menus) {
  if (place.previousElementSibling?.className === "zooms") place.previousElementSibling.remove();
  const row = document.createElement("div");
  row.className = "zooms";
  for (const { label, args } of menus.flatMap(menu => menu.buttons)) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
    button.addEventListener("click", () => Plotly.relayout(place, args[0]));
    row.append(button);
  }
  if (row.children.length) place.before(row);
}

function main() {
  const script = document.createElement("script");
  script.textContent = unpack("plotly");
  document.head.append(script);
  const figures = JSON.parse(unpack("figures"));
  const draw = async place => {
    const figure = dressed(figures[place.dataset.view || place.id]), menus = figure.layout.updatemenus || [];
    delete figure.layout.updatemenus;
    buttonsAbove(place, menus);
    await Plotly.react(place, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    place.dataset.drawn = "yes";
  };
  const seen = new IntersectionObserver(entries => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "600px" });
  const places = [...document.querySelectorAll(".figure")];
  places.forEach(place => seen.observe(place));
  for (const slider of document.querySelectorAll("input[data-for]")) {
    const place = document.getElementById(slider.dataset.for), names = JSON.parse(slider.dataset.names);
    slider.addEventListener("input", () => {
      place.dataset.view = `${place.id}-${slider.value}`;
      slider.nextElementSibling.textContent = names[slider.value];
      draw(place);
    });
  }
  const all = () => places.filter(place => !place.dataset.drawn).forEach(draw);
  window.addEventListener("beforeprint", all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.filter(place => place.dataset.drawn).forEach(draw));
}
main();
