// Unfolds plotly.js and the figures, then draws each figure when it comes into view. No request is made.
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// the figures are made for white paper; what is ink, paper or line takes the page's own colours
function dressed(figure) {
  const swap = new Map([["#1f2933", css("--ink")], ["#ffffff", css("--paper")], ["#e6e9ed", css("--line")], ["#8a94a0", css("--faint")]]);
  const inked = JSON.parse(JSON.stringify(figure), (_, value) =>
    typeof value === "string" && swap.has(value.toLowerCase()) ? swap.get(value.toLowerCase()) : value);
  const layout = inked.layout;
  Object.assign(layout, { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { ...layout.font, color: css("--ink") } });
  if (innerWidth < 700) delete layout.updatemenus; // no room beside the legend; a phone zooms by touch
  for (const menu of layout.updatemenus || []) Object.assign(menu, { bgcolor: css("--paper"), bordercolor: css("--line"), showactive: false });
  return inked;
}

function main() {
  const script = document.createElement("script");
  script.textContent = unpack("plotly");
  document.head.append(script);
  const figures = JSON.parse(unpack("figures"));
  const draw = async place => {
    const figure = dressed(figures[place.dataset.view || place.id]);
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
