// Ops dragged along the host's order, by mouse, touch and keyboard. A drop is judged while it is made.

// list: the <ol>. state(): { placement, order }; drop(order): take it; say(text): why not, or "".
function makeDraggable(list, state, drop, say) {
  let held = null; // { from, to, item }
  const items = () => [...list.children];
  const judge = () => {
    const { placement, order } = state();
    const why = held.to === held.from ? "" : whyNot(placement, moved(order, held.from, held.to));
    list.classList.toggle("refusing", Boolean(why));
    say(why);
    return why;
  };
  const take = (item, byKeyboard) => {
    held = { from: items().indexOf(item), to: items().indexOf(item), item, byKeyboard };
    item.classList.add("taken");
    say("");
  };
  const show = to => {
    held.to = Math.max(0, Math.min(to, items().length - 1));
    const rest = items().filter(item => item !== held.item);
    held.moving = true; // an element that is moved loses the focus for a moment
    list.insertBefore(held.item, rest[held.to] || null);
    if (held.byKeyboard) held.item.focus();
    held.moving = false;
    judge();
  };
  const putDown = keep => {
    const { item, from, to } = held, { order } = state(), why = keep ? judge() : "";
    held = null;
    list.classList.remove("refusing");
    item.classList.remove("taken");
    const took = keep && !why && to !== from;
    drop(took ? moved(order, from, to) : order, took ? to : from, why);
    if (!keep) say("");
  };
  // Where the pointer is among the other items, in reading order: rows of items, or one below the other on a phone.
  const placeAt = (x, y) => {
    const rest = items().filter(item => item !== held.item), column = getComputedStyle(list).flexDirection === "column";
    return rest.filter(item => {
      const box = item.getBoundingClientRect();
      if (column) return y > box.top + box.height / 2;
      return y > box.bottom || (y >= box.top && x > box.left + box.width / 2);
    }).length;
  };
  list.addEventListener("pointerdown", event => {
    const item = event.target.closest("li");
    if (!item || event.button || (event.pointerType !== "mouse" && !event.target.closest(".handle"))) return;
    event.preventDefault();
    item.focus();
    if (held) putDown(false);
    take(item, false);
    list.setPointerCapture(event.pointerId);
  });
  list.addEventListener("pointermove", event => {
    if (held && !held.byKeyboard) show(placeAt(event.clientX, event.clientY));
  });
  list.addEventListener("pointerup", () => { if (held && !held.byKeyboard) putDown(true); });
  list.addEventListener("pointercancel", () => { if (held && !held.byKeyboard) putDown(false); });
  list.addEventListener("keydown", event => {
    const item = event.target.closest("li"), at = items().indexOf(item);
    if (!item) return;
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -at, End: items().length - 1 - at };
    if (event.key === "Enter" || event.key === " ") held ? putDown(true) : take(item, true);
    else if (event.key === "Escape" && held) putDown(false);
    else if (event.key in steps && held) show(held.to + steps[event.key]);
    else if (event.key in steps) items()[at + steps[event.key]]?.focus();
    else return;
    event.preventDefault();
  });
  list.addEventListener("focusout", event => { if (held?.byKeyboard && !held.moving && !list.contains(event.relatedTarget)) putDown(false); });
}
