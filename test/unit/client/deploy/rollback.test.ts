/** A rollback leaves the builds that it should, says where there is nothing to go back to, and goes no further when repeated. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { rolledBackText } from '../../../../cli/verbs/deploy.ts';
import { FakeDeployment } from '../../../support/fake-deployment.ts';
import { codeOf } from '../../../support/world/run-record.ts';

const plainly = (_shade: string, text: string): string => text;

test('it goes back to the build before, and a second one changes nothing, whatever was promoted in order', async () => {
  const histories = fc.integer({ min: 2, max: 5 }).chain((builds) =>
    fc.record({
      builds: fc.constant(builds),
      /** The newest build takes a share first. */
      ramps: fc.boolean(),
    }),
  );
  await fc.assert(
    fc.asyncProperty(histories, async ({ builds, ramps }) => {
      const names = Array.from({ length: builds }, (_, index) => `build-${index}`);
      const [newest = '', before = ''] = names.toReversed();
      const temporal = new FakeDeployment(...(ramps ? names.slice(0, -1) : names));
      if (ramps) {
        temporal.addBuild(newest);
        temporal.setRamp({ build: newest, percent: 5 });
      }
      temporal.addRuns(before, 3, { movedTo: newest });
      temporal.addRuns(newest, 2);
      const left = { build: newest, withdrawn: 3, remaining: 2 };
      expect(await temporal.deployment.rollback()).toMatchObject({
        changed: true,
        current: before,
        left: [left],
        isEarliest: false,
      });
      const { changes } = temporal;
      const done = changes.length;
      const again = { changed: false, current: before, isEarliest: true, left: [{ ...left, withdrawn: 0 }] };
      expect(await temporal.deployment.rollback()).toMatchObject(again);
      expect(changes).toHaveLength(done);
      expect(temporal.overridden).toEqual([]);
    }),
  );
});

test('where an older build was promoted again it says that there is no earlier one, and how to name another', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.makeCurrent('a');
  const done = await temporal.deployment.rollback();
  expect(done).toMatchObject({ changed: false, current: 'a', isEarliest: true });
  const text = rolledBackText(done, plainly);
  expect(text).toContain('there is no earlier build to go back to');
  expect(text).toContain('countersign deploy rollback --to BUILD');
  expect(await temporal.deployment.rollback('b')).toMatchObject({ changed: true, current: 'b', isEarliest: false });
});

test('with a ramp and `--to`, moves to each build that is left are withdrawn', async () => {
  const temporal = new FakeDeployment('a', 'b', 'c');
  temporal.makeCurrent('b');
  temporal.setRamp({ build: 'c', percent: 5 });
  temporal.addRuns('a', 2, { movedTo: 'b' });
  temporal.addRuns('a', 1, { movedTo: 'c' });
  const done = await temporal.deployment.rollback('a');
  expect(done).toMatchObject({ changed: true, current: 'a' });
  expect(done.left).toEqual([
    { build: 'c', withdrawn: 1, remaining: 0 },
    { build: 'b', withdrawn: 2, remaining: 0 },
  ]);
  expect(temporal.overridden).toEqual([]);
  // What was begun and not ended is ended by the same words.
  temporal.addRuns('a', 1, { movedTo: 'b' });
  expect((await temporal.deployment.rollback('a')).left).toEqual([
    { build: 'c', withdrawn: 0, remaining: 0 },
    { build: 'b', withdrawn: 1, remaining: 0 },
  ]);
});

test('a move that was taken up is ended, and not told as one that was withdrawn', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('a', 1, { movedTo: 'b' });
  temporal.addRuns('b', 2, { movedTo: 'b' });
  expect((await temporal.deployment.rollback()).left).toEqual([{ build: 'b', withdrawn: 1, remaining: 2 }]);
  expect(temporal.overridden).toEqual([]);
});

test('the build that took a share and is gone back to is not left', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.makeCurrent('a');
  temporal.setRamp({ build: 'b', percent: 5 });
  temporal.addRuns('b', 1);
  const done = await temporal.deployment.rollback('b');
  expect(done).toMatchObject({ current: 'b', left: [{ build: 'a' }] });
  expect(done.ramping).toBeUndefined();
});

test('a build without workers is not made current again, and nothing is changed, neither is a ramp ended', async () => {
  const temporal = new FakeDeployment('a', 'b', 'c');
  temporal.makeCurrent('b');
  temporal.setRamp({ build: 'c', percent: 5 });
  temporal.polling.delete('a');
  expect(await codeOf(temporal.deployment.rollback('a'))).toBe('BUILD_UNSERVED');
  expect(temporal.changes).toEqual([]);
  temporal.polling.add('a');
  expect(await temporal.deployment.rollback('a')).toMatchObject({ changed: true, current: 'a' });
});

test('a ramp ends whether or not the current build has workers: it takes new runs already', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.makeCurrent('a');
  temporal.setRamp({ build: 'b', percent: 5 });
  temporal.polling.clear();
  expect(await temporal.deployment.rollback()).toMatchObject({ changed: true, current: 'a' });
});

test('where Temporal tells of no build before, nothing is changed', async () => {
  const temporal = new FakeDeployment('a');
  expect(await codeOf(temporal.deployment.rollback())).toBe('BUILD_UNKNOWN');
  expect(await codeOf(temporal.deployment.rollback('none'))).toBe('BUILD_UNKNOWN');
  expect(temporal.changes).toEqual([]);
});

test('moves are withdrawn until none is left, also those that visibility lists late, however many', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('a', 10_050, { movedTo: 'b' });
  let looks = 0;
  temporal.onLook = () => {
    looks += 1;
    // As from a drain that was killed just now.
    if (looks === 10_000) temporal.addRuns('a', 1, { movedTo: 'b' });
  };
  expect((await temporal.deployment.rollback()).left).toEqual([{ build: 'b', withdrawn: 10_051, remaining: 0 }]);
  expect(temporal.overridden).toEqual([]);
});

test('a move that cannot be withdrawn is told, and what was under way beside it is ended first', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('a', 100, { movedTo: 'b' });
  temporal.onOverride = (workflowId) => {
    if (workflowId === 'run-3') throw new Error('Temporal is away');
  };
  await expect(temporal.deployment.rollback()).rejects.toThrow('Temporal is away');
  const { length } = temporal.changes;
  expect(length).toBeLessThan(12);
  await new Promise((resolve) => void setImmediate(resolve));
  expect(temporal.changes).toHaveLength(length);
});
