/**
 * Estimates how much memory a value of JSON takes, for what is kept within a bound of bytes. The length of its text
 * tells little: `[{},{},…]` takes 21 times as much.
 *
 * 1. An estimate is rather too high: names that values share take less. It is never much below what V8 takes.
 */

/** Bytes of an empty object, with its place in a list. A name takes as much where its object has a shape of its own. */
const EACH = 64;

/** @returns bytes */
export function weightOf(value: unknown): number {
  let weight = 0;
  const left = [value];
  // A loop, since values may be nested deeper than calls.
  while (left.length > 0) {
    const each = left.pop();
    weight += EACH;
    if (typeof each === 'string') weight += textWeight(each);
    else if (Array.isArray(each)) for (const item of each as readonly unknown[]) left.push(item);
    else if (each instanceof Map) left.push([...each]);
    else if (typeof each === 'object' && each !== null)
      for (const [name, inner] of Object.entries(each)) {
        weight += EACH + textWeight(name);
        left.push(inner);
      }
  }
  return weight;
}

/** V8 takes one byte for each character of a text in Latin-1, and two for each of any other text. */
function textWeight(text: string): number {
  return /[\u0100-\uffff]/.test(text) ? 2 * text.length : text.length;
}
