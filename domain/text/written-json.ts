/** Finds what of a JSON text its readers would change or not get through: numbers, members, and levels without end. */

/** Whole numbers that are read as another one: ids of 64 bits, for instance. */
export const ROUNDED_NUMBER =
  'a whole number that would be rounded (beyond 9007199254740992); give it as text where the tool takes that';

/** @param text JSON */
export function roundsNumber(text: string): boolean {
  for (const number of numbersIn(text)) if (isRounded(number)) return true;
  return false;
}

/** The first number that would become another one, or none (`1e999`). @param text may be no JSON */
export function changedNumber(text: string): string | undefined {
  for (const number of numbersIn(text)) if (isRounded(number) || Math.abs(Number(number)) === Infinity) return number;
  return undefined;
}

export function changedNumberText(number: string): string {
  return `holds ${number.slice(0, 40)}, which would be read as another number; write it as text where its reader takes that`;
}

/** The first member that stands twice in its object, as written: readers may take either. @param text JSON */
export function repeatedMember(text: string): string | undefined {
  for (const { written, isRepeated } of membersIn(text)) if (isRepeated) return written;
  return undefined;
}

/** True if a member is called `__proto__`: schemas drop it without a word. @param text JSON */
export function namesPrototype(text: string): boolean {
  for (const { name } of membersIn(text)) if (name === '__proto__') return true;
  return false;
}

export const PROTOTYPE_TEXT = 'has a field called __proto__, which nothing here takes; leave it out';

interface Member {
  readonly name: string;
  readonly written: string;
  readonly isRepeated: boolean;
}

function* membersIn(text: string): Generator<Member> {
  const open: Set<string>[] = [];
  let last = '""';
  for (const token of tokensIn(text, /["{}:]/g)) {
    if (token === '{') open.push(new Set());
    else if (token === '}') open.pop();
    else if (token !== ':') last = token;
    else {
      // One name may be written in several ways.
      const name = String(JSON.parse(last));
      yield { name, written: last, isRepeated: open.at(-1)?.has(name) === true };
      open.at(-1)?.add(name);
    }
  }
}

/** @param text may be no JSON */
export function isTooDeep(text: string, most: number): boolean {
  let level = 0;
  for (const token of tokensIn(text, /["{}[\]]/g)) {
    if (token === '{' || token === '[') level += 1;
    else if (!token.startsWith('"')) level -= 1;
    if (level > most) return true;
  }
  return false;
}

export function repeatedMemberText(name: string): string {
  return `has two members called ${name.slice(0, 40)}; write one`;
}

function isRounded(token: string): boolean {
  return /^-?\d{16,}$/.test(token) && !isKept(token);
}

/** True if a number is the one that was written: `9007199254740993` would become another. */
export function isKept(text: string): boolean {
  const value = Number(text);
  return Number.isFinite(value) && decimal(text) === decimal(String(value));
}

/** One text per decimal number, without its sign: digits and a power of ten. */
function decimal(text: string): string | undefined {
  const [, whole = '', fraction = '', power = '0'] = /^[+-]?(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  // A pattern for the last zeros would begin at each zero anew: a number of 100,000 digits took ten seconds.
  let length = digits.length;
  while (digits[length - 1] === '0') length -= 1;
  return length === 0 ? '0' : `${digits.slice(0, length)}e${Number(power) - fraction.length + digits.length - length}`;
}

/** True if the value is the whole text: no member stands twice, and no number is rounded. @param text JSON */
export function isWholly(text: string): boolean {
  return repeatedMember(text) === undefined && !roundsNumber(text);
}

function* numbersIn(text: string): Generator<string> {
  for (const token of tokensIn(text, /"|-?\d[\d.eE+-]*/g)) if (!token.startsWith('"')) yield token;
}

/** Each string is one token. @param pattern of the others, and of a quote */
function* tokensIn(text: string, pattern: RegExp): Generator<string> {
  for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
    if (found[0] === '"') pattern.lastIndex = endOfString(text, pattern.lastIndex);
    yield text.slice(found.index, pattern.lastIndex);
  }
}

/** @param from index after the opening quote */
function endOfString(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '"') return at + 1;
    if (text[at] === '\\') at += 1;
  }
  return text.length;
}
