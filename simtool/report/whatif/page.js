// Ties what is touched to what is chosen, and shows the page for the first time.
LANES.forEach((lane, i) => {
  const name = Object.assign(document.createElement("span"), { textContent: lane });
  name.style.top = `${TOP_PX + i * LANE_PX + 2}px`;
  $$("lanes").append(name);
});
$$("placement").addEventListener("change", event => choose({ placement: event.target.value, step: null }));
$$("concurrency").addEventListener("input", event => choose({ concurrency: +event.target.value, step: null }));
$$("sl").addEventListener("input", event => atSl(+event.target.value));
$$("step").addEventListener("input", event => { chosen.step = asItStands(chosen.placement).lengths[event.target.value][0]; soon(); });
$$("zoom").addEventListener("input", event => { chosen.zoom = +event.target.value; soon(); });
$$("reset").addEventListener("click", () => choose({ factors: {}, orders: {} }));
makeDraggable($$("order"), () => ({ placement: placementOf(chosen.placement), order: orderOf(chosen.placement) }), (order, focus, why) => {
  const stands = placementOf(chosen.placement).order;
  if (order.every((slot, i) => slot === stands[i])) delete chosen.orders[chosen.placement];
  else chosen.orders[chosen.placement] = order;
  showOrder(focus, why);
  soon();
}, why => { $$("refused").textContent = why; });
new ResizeObserver(soon).observe($$("scroll"));
start();
makeCosts();
showOrder();
show();
