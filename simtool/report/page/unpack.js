// Texts packed by packing.py: letters (five for four bytes) of a zlib stream. Inflated here, as RFC 1951 has it, so that
// a page draws in any browser and at once.
const ALPHABET = "$alphabet";

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

const LENGTH_BASE = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const BACK_BASE = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
const BACK_BITS = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

// a canonical Huffman code: how many symbols have each length, and the symbols in the order of their codes
function code(lengths) {
  const count = new Uint16Array(16), start = new Uint16Array(16), symbols = new Uint16Array(lengths.length);
  for (const length of lengths) count[length]++;
  count[0] = 0;
  for (let i = 1; i < 15; i++) start[i + 1] = start[i] + count[i];
  lengths.forEach((length, symbol) => { if (length) symbols[start[length]++] = symbol; });
  return { count, symbols };
}

function inflate(bytes, size) {
  const out = new Uint8Array(size);
  let at = 2, bit = 0, held = 0, filled = 0; // two bytes of zlib's header come first
  const bits = need => {
    while (bit < need) { held |= bytes[at++] << bit; bit += 8; }
    const value = held & ((1 << need) - 1);
    held >>>= need; bit -= need;
    return value;
  };
  const symbol = ({ count, symbols }) => {
    let word = 0, first = 0, index = 0;
    for (let length = 1; length < 16; length++) {
      if (!bit) { held = bytes[at++]; bit = 8; }
      word |= held & 1; held >>>= 1; bit--;
      const here = count[length];
      if (word - first < here) return symbols[index + word - first];
      index += here; first = (first + here) << 1; word <<= 1;
    }
    throw new Error("the packed text is damaged");
  };
  const dynamic = () => {
    const literals = bits(5) + 257, backs = bits(5) + 1, given = bits(4) + 4, short = new Array(19).fill(0), lengths = [];
    for (let i = 0; i < given; i++) short[CODE_ORDER[i]] = bits(3);
    const first = code(short);
    while (lengths.length < literals + backs) {
      const next = symbol(first);
      if (next < 16) { lengths.push(next); continue; }
      const same = next === 16 ? lengths[lengths.length - 1] : 0;
      const times = next === 16 ? 3 + bits(2) : next === 17 ? 3 + bits(3) : 11 + bits(7);
      for (let i = 0; i < times; i++) lengths.push(same);
    }
    return [code(lengths.slice(0, literals)), code(lengths.slice(literals))];
  };
  const fixed = () => [
    code(Array.from({ length: 288 }, (_, i) => i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8)), code(new Array(30).fill(5))];
  for (let last = 0; !last;) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) { // stored: whole bytes, their number first
      held = 0; bit = 0;
      const length = bytes[at] | bytes[at + 1] << 8;
      out.set(bytes.subarray(at + 4, at + 4 + length), filled);
      at += 4 + length; filled += length;
      continue;
    }
    const [literal, back] = kind === 1 ? fixed() : dynamic();
    for (let next = symbol(literal); next !== 256; next = symbol(literal)) {
      if (next < 256) { out[filled++] = next; continue; }
      const length = LENGTH_BASE[next - 257] + bits(LENGTH_BITS[next - 257]), far = symbol(back);
      let from = filled - BACK_BASE[far] - bits(BACK_BITS[far]);
      for (const end = filled + length; filled < end;) out[filled++] = out[from++];
    }
  }
  return new TextDecoder().decode(out);
}

function unpack(id) {
  const packed = document.getElementById(id);
  const text = inflate(unletter(packed.textContent.trim()), Number(packed.dataset.bytes));
  packed.remove();
  return text;
}
