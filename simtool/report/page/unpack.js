// Texts packed by packing.py: letters (five for four bytes) of an LZMA stream. Unfolded here, as LZMA's specification has
// it (lc $literal_bits, lp 0, pb 0), so that a page is small and draws in any browser, asking for nothing.
const ALPHABET = "$alphabet";
const LITERAL_BITS = $literal_bits;

function unletter(text) {
  const value = new Uint8Array(128);
  [...ALPHABET].forEach((letter, place) => { value[letter.charCodeAt(0)] = place; });
  const bytes = new Uint8Array(text.length / 5 * 4), view = new DataView(bytes.buffer);
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let word = 0;
    for (let k = 0; k < 5; k++) word = word * 85 + value[text.charCodeAt(i + k)];
    view.setUint32(at, word);
  }
  return bytes;
}

function unfold(bytes, size) {
  const out = new Uint8Array(size);
  let at = 5, range = 0xffffffff, code = new DataView(bytes.buffer).getUint32(1), filled = 0;
  // how likely a bit is 0, in 2048ths; each bit moves what it was expected by
  const chances = length => new Uint16Array(length).fill(1024);
  const refill = () => {
    if (range >= 0x1000000) return;
    range *= 256; code = code * 256 + bytes[at++];
  };
  const bit = (chance, place) => {
    const bound = (range >>> 11) * chance[place], one = code >= bound;
    if (one) { range -= bound; code -= bound; chance[place] -= chance[place] >> 5; }
    else { range = bound; chance[place] += (2048 - chance[place]) >> 5; }
    refill();
    return one ? 1 : 0;
  };
  const evenBits = count => { // each as likely as the other
    let value = 0;
    for (; count; count--) {
      range = range >>> 1;
      const one = code >= range;
      if (one) code -= range;
      value = value * 2 + (one ? 1 : 0);
      refill();
    }
    return value;
  };
  const tree = (chance, first, count) => { // the highest bit first
    let place = 1;
    for (let i = 0; i < count; i++) place = place * 2 + bit(chance, first + place);
    return place - (1 << count);
  };
  const turnedTree = (chance, first, count) => { // the lowest bit first
    let place = 1, value = 0;
    for (let i = 0; i < count; i++) {
      const next = bit(chance, first + place);
      place = place * 2 + next; value |= next << i;
    }
    return value;
  };
  const literal = chances(0x300 << LITERAL_BITS), copies = chances(12), again = chances(12), other = chances(12);
  const third = chances(12), fourth = chances(12), longer = chances(12);
  const slots = chances(4 * 64), near = chances(128), low = chances(16), lengths = chances(274), lengthsAgain = chances(274);
  const lengthOf = chance => {
    if (!bit(chance, 0)) return 2 + tree(chance, 2, 3);
    return bit(chance, 1) ? 18 + tree(chance, 18, 8) : 10 + tree(chance, 10, 3);
  };
  const distanceAfter = length => {
    const slot = tree(slots, 64 * Math.min(length - 2, 3), 6);
    if (slot < 4) return slot;
    const count = (slot >> 1) - 1, distance = (2 | slot & 1) * 2 ** count;
    if (slot < 14) return distance + turnedTree(near, distance - slot, count);
    return distance + evenBits(count - 4) * 16 + turnedTree(low, 0, 4);
  };
  // state: what the last few steps were, a literal or a copy; back: the last four distances, less one
  for (let state = 0, back = [0, 0, 0, 0]; filled < size;) {
    if (!bit(copies, state)) {
      const first = 0x300 * ((filled && out[filled - 1]) >> (8 - LITERAL_BITS));
      let symbol = 1;
      if (state >= 7) { // behind a copy: the byte that would have gone on with it says what is likely
        let expected = out[filled - back[0] - 1];
        for (let same = true; same && symbol < 256; expected <<= 1) {
          const likely = expected >> 7 & 1, next = bit(literal, first + (1 + likely << 8) + symbol);
          symbol = symbol * 2 + next; same = next === likely;
        }
      }
      while (symbol < 256) symbol = symbol * 2 + bit(literal, first + symbol);
      out[filled++] = symbol;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let length = 1;
    if (!bit(again, state)) {
      length = lengthOf(lengths);
      back = [distanceAfter(length), back[0], back[1], back[2]];
      state = state < 7 ? 7 : 10;
    } else {
      const which = !bit(other, state) ? 0 : !bit(third, state) ? 1 : !bit(fourth, state) ? 2 : 3;
      if (which) back.unshift(...back.splice(which, 1));
      if (which || bit(longer, state)) {
        length = lengthOf(lengthsAgain);
        state = state < 7 ? 8 : 11;
      } else {
        state = state < 7 ? 9 : 11;
      }
    }
    for (let from = filled - back[0] - 1, end = filled + length; filled < end;) out[filled++] = out[from++];
  }
  return new TextDecoder().decode(out);
}

function unpack(id) {
  const packed = document.getElementById(id);
  const text = unfold(unletter(packed.textContent.trim()), Number(packed.dataset.bytes));
  packed.remove();
  return text;
}
