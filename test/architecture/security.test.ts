// SECURITY.md promises nothing that no test shows: each "cannot" has a row in docs/security-proofs.md, and each row its
// test.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import { ROOT } from './source-tree.ts';

interface Proof {
  readonly who: string;
  readonly promise: string;
  readonly path: string;
  readonly which: string;
}

interface Promised {
  readonly who: string;
  readonly text: string;
}

const HELD = 'What holds it';
let proofs: readonly Proof[];
/** The lists that follow "Cannot:", by whom they speak of. */
let cells: readonly Promised[];
/** Sentences that say "cannot", "never" or "ever". */
let sentences: readonly string[];
/** Each point of what holds it. */
let points: readonly string[];

beforeAll(async () => {
  const read = async (path: string) => await readFile(join(ROOT, path), 'utf8');
  const security = await read('SECURITY.md');
  const rows = rowsOf(await read('docs/security-proofs.md'));
  proofs = rows.map((row) => {
    const [which = '', path = '', promise = '', who = HELD] = row.toReversed();
    return { who, promise, path: path.replaceAll('`', ''), which };
  });
  cells = cannotsIn(sectionOf(security, '## Who can do what', `\n## ${HELD}`));
  const held = sectionOf(security, `## ${HELD}`, '\n## ');
  // Where a link leads says nothing, and what does not hold is no promise.
  const said = held.replaceAll(/\]\([^)]*\)/g, ']').replaceAll(/Not (?:held|covered):[^.]*\./g, '');
  points = said.split(/^- /m).slice(1);
  sentences = said.split(/(?<=[.:;])\s+/).filter((sentence) => /\b(?:cannot|never|ever)\b/.test(sentence));
});

/** Each list behind "Cannot:" as one text, with the heading that it stands under. */
function cannotsIn(section: string): readonly Promised[] {
  return section
    .split('\n### ')
    .slice(1)
    .map((part) => {
      const [heading = '', ...lines] = part.split('\n');
      const lists = lines
        .join('\n')
        .split(/^Cannot:$/m)
        .slice(1);
      const listed = lists.flatMap((list) => /^(?:\s*- .*\n?)+/.exec(list)?.[0].match(/(?<=^- ).*/gm) ?? []);
      return { who: heading.charAt(0).toLowerCase() + heading.slice(1), text: listed.join('; ') };
    });
}

function sectionOf(text: string, from: string, to: string): string {
  const start = text.indexOf(from);
  const end = text.indexOf(to, start);
  if (start < 0 || end < 0) throw new Error(`SECURITY.md has no part from "${from}" to "${to}"`);
  return text.slice(start, end).replaceAll(/[ \t]*\n(?=\S)(?!\||-|#|Cannot:)/g, ' ');
}

/** Cells of each row of all tables, without their heads. */
function rowsOf(text: string): readonly (readonly string[])[] {
  const lines = text.split('\n').filter((line) => line.startsWith('| '));
  const rows = lines.map((line) =>
    line
      .slice(1, line.lastIndexOf('|'))
      .split('|')
      .map((cell) => cell.trim()),
  );
  return rows.filter((row) => !row.includes('cannot') && !row.includes('promise'));
}

const isOf = (proof: Proof, { who }: Promised): boolean =>
  who === proof.who || who.startsWith(`${proof.who} `) || who.startsWith(`${proof.who},`);

test('each "cannot" has its row, word for word', () => {
  expect(cells.length).toBeGreaterThan(10);
  const open = cells.flatMap((cell) => {
    const own = proofs.filter((proof) => proof.who !== HELD && isOf(proof, cell));
    const left = own
      .map(({ promise }) => promise)
      .toSorted((one, other) => other.length - one.length)
      .reduce((text, promise) => text.replaceAll(promise, ''), cell.text);
    // What explains a promise follows it in brackets.
    const words = left.replaceAll(/\([^)]*\)/g, '').replaceAll(/\b(?:and|or)\b|[\s,:;.]/g, '');
    return words === '' ? [] : [`${cell.who}: ${left}`];
  });
  expect(open).toEqual([]);
});

test('so has each sentence that says "cannot", "never" or "ever"', () => {
  expect(sentences.length).toBeGreaterThan(5);
  const known = proofs.filter(({ who }) => who === HELD);
  expect(sentences.filter((sentence) => !known.some(({ promise }) => sentence.includes(promise)))).toEqual([]);
});

test('and each point of what holds it', () => {
  expect(points.length).toBeGreaterThan(10);
  const known = proofs.filter(({ who }) => who === HELD);
  const open = points.filter((point) => !known.some(({ promise }) => point.includes(promise)));
  expect(open.map((point) => point.slice(0, 60))).toEqual([]);
});

test('no row speaks of what is not promised, or names a test that is not there', async () => {
  const problems = await Promise.all(
    proofs.map(async (proof) => {
      const { promise, path, which } = proof;
      const isPromised =
        proof.who === HELD
          ? points.some((point) => point.includes(promise))
          : cells.some((cell) => isOf(proof, cell) && cell.text.includes(promise));
      const text = await readFile(join(ROOT, path), 'utf8').catch(() => undefined);
      return [
        ...(isPromised ? [] : [`not promised: ${promise}`]),
        ...(text?.includes(which) === true ? [] : [`not there: ${path} › ${which}`]),
      ];
    }),
  );
  expect(problems.flat()).toEqual([]);
});
