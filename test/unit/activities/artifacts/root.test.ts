/** Workers that start at the same moment, on one machine, set up one directory. */
import * as files from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';

/** Called after each step of a worker that sets the directory up. */
let meanwhile = (): void => {};
const withOthers =
  <Given extends unknown[], Value>(step: (...given: Given) => Value) =>
  (...given: Given): Value => {
    const value = step(...given);
    meanwhile();
    return value;
  };
jest.unstable_mockModule('node:fs', () => ({
  ...files,
  mkdirSync: withOthers(files.mkdirSync),
  mkdtempSync: withOthers(files.mkdtempSync),
  renameSync: withOthers(files.renameSync),
  writeFileSync: withOthers(files.writeFileSync),
}));
const { MARKER, setUpRoot } = await import('../../../../activities/artifacts/root.ts');

let parent: string;
beforeEach(() => {
  parent = files.mkdtempSync(join(tmpdir(), 'countersign-root-'));
});
afterEach(() => {
  files.rmSync(parent, { recursive: true, force: true });
});

test('each of two workers that start at once finds nothing or the whole root, wherever the other one is', () => {
  const root = join(parent, 'artifacts');
  let steps = 0;
  const startBeside = (after: number): void => {
    steps = 0;
    meanwhile = () => {
      steps += 1;
      if (steps === after) setUpRoot(root, true);
    };
    setUpRoot(root, true);
    expect(files.readdirSync(parent)).toEqual(['artifacts']);
    expect(files.readdirSync(root)).toEqual([MARKER]);
    files.rmSync(root, { recursive: true });
  };
  startBeside(0);
  const alone = steps;
  expect(alone).toBeGreaterThan(0);
  for (let after = 1; after <= alone; after += 1) startBeside(after);
});
