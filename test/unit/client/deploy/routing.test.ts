/** New runs go where they were sent: each change may be repeated, needs workers, and undoes no other. */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { routedText } from '../../../../cli/verbs/deploy.ts';
import { FakeDeployment } from '../../../support/fake-deployment.ts';
import { codeOf } from '../../../support/world/run-record.ts';

function twoBuilds(): FakeDeployment {
  const temporal = new FakeDeployment('a');
  temporal.addBuild('b');
  return temporal;
}

test('a promotion says what holds then, ends a ramp to the build, and is sent once', async () => {
  const temporal = twoBuilds();
  await temporal.deployment.ramp('b', 5);
  expect(await temporal.deployment.promote('b')).toEqual({ deployment: 'agents', changed: true, current: 'b' });
  expect(await temporal.deployment.promote('b')).toEqual({ deployment: 'agents', changed: false, current: 'b' });
  expect(temporal.changes).toEqual(['ramp b 5', 'current b']);
});

test.each([12.3, 0.1, 33.333333333])('a share of %p %% is told as it was given, and is sent once', async (percent) => {
  const temporal = twoBuilds();
  const told = Number(percent.toPrecision(7));
  const done = await temporal.deployment.ramp('b', percent);
  expect(done).toMatchObject({ changed: true, ramping: { build: 'b', percent: told } });
  expect(routedText(done, plain)).toContain(`takes ${told} % of new runs`);
  expect(await temporal.deployment.ramp('b', percent)).toMatchObject({ changed: false });
  expect(temporal.changes).toHaveLength(1);
});

test('a promotion ends a ramp to another build, also that of the build which is current, and says so', async () => {
  const temporal = twoBuilds();
  await temporal.deployment.ramp('b', 50);
  const done = await temporal.deployment.promote('a');
  const ended = { build: 'b', percent: 50 };
  expect(done).toEqual({ deployment: 'agents', changed: true, current: 'a', ended });
  expect(routedText(done, plain)).toBe(
    'changed  build a is current; the ramp that sent 50 % of new runs to build b has ended',
  );
  expect(await temporal.deployment.promote('a')).toEqual({ deployment: 'agents', changed: false, current: 'a' });
  temporal.addBuild('c');
  await temporal.deployment.ramp('b', 50);
  expect(await temporal.deployment.promote('c')).toMatchObject({ current: 'c', ended });
  // What interrupts it between both changes leaves nothing with the build that is to take none.
  expect(temporal.changes).toEqual(['ramp b 50', 'ramp  0', 'ramp b 50', 'ramp  0', 'current c']);
  expect(temporal.ramping).toBeUndefined();
});

test('a promotion that is interrupted between both changes is ended by a second one', async () => {
  const temporal = twoBuilds();
  temporal.addBuild('c');
  await temporal.deployment.ramp('b', 50);
  let reads = 0;
  temporal.onRead = () => {
    reads += 1;
    if (reads === 2) throw new Error('killed');
  };
  await expect(temporal.deployment.promote('c')).rejects.toThrow('killed');
  expect(temporal).toMatchObject({ current: 'a', ramping: undefined });
  expect(await temporal.deployment.promote('c')).toEqual({ deployment: 'agents', changed: true, current: 'c' });
});

test('a promotion of a build without workers ends no ramp', async () => {
  const temporal = twoBuilds();
  temporal.addBuild('c');
  await temporal.deployment.ramp('b', 50);
  temporal.polling.delete('c');
  expect(await codeOf(temporal.deployment.promote('c'))).toBe('BUILD_UNSERVED');
  expect(temporal.ramping).toEqual({ build: 'b', percent: 50 });
});

test('a ramp is sent once for each share, and 0 ends it, once', async () => {
  const temporal = twoBuilds();
  const shares = [];
  for (const percent of [0, 5, 5, 50, 0, 0]) shares.push((await temporal.deployment.ramp('b', percent)).changed);
  expect(shares).toEqual([false, true, false, true, true, false]);
  expect(temporal.changes).toEqual(['ramp b 5', 'ramp b 50', 'ramp  0']);
  expect(temporal.ramping).toBeUndefined();
});

test('no share is sent to the current build, nor anything to one that is not known', async () => {
  const temporal = twoBuilds();
  expect(await codeOf(temporal.deployment.ramp('a', 5))).toBe('BUILD_CURRENT');
  expect(await codeOf(temporal.deployment.ramp('none', 5))).toBe('BUILD_UNKNOWN');
  expect(await codeOf(temporal.deployment.promote('none'))).toBe('BUILD_UNKNOWN');
  expect(temporal.changes).toEqual([]);
});

test('a build without workers gets no runs; a ramp to it may end', async () => {
  const temporal = twoBuilds();
  temporal.setRamp({ build: 'b', percent: 5 });
  temporal.polling.delete('b');
  expect(await codeOf(temporal.deployment.promote('b'))).toBe('BUILD_UNSERVED');
  expect(await codeOf(temporal.deployment.ramp('b', 50))).toBe('BUILD_UNSERVED');
  expect(temporal.changes).toEqual([]);
  expect(await temporal.deployment.ramp('b', 0)).toMatchObject({ changed: true });
});

test.each(['promote', 'ramp', 'rollback'] as const)(
  'a change between what %s has read and what it sends has it refused, and stays',
  async (verb) => {
    const temporal = new FakeDeployment('a', 'b');
    temporal.addBuild('c');
    let isFirst = true;
    temporal.onRead = () => {
      if (!isFirst) return;
      isFirst = false;
      // After the reading is answered.
      queueMicrotask(() => temporal.setRamp({ build: 'a', percent: 1 }));
    };
    const { deployment } = temporal;
    const change = {
      promote: () => deployment.promote('c'),
      ramp: () => deployment.ramp('c', 5),
      rollback: () => deployment.rollback(),
    };
    expect(await codeOf(change[verb]())).toBe('DEPLOYMENT_CHANGED');
    expect(temporal).toMatchObject({ changes: [], current: 'b', ramping: { build: 'a', percent: 1 } });
  },
);

test('the status lists the builds, newest first, with the runs that stay with each', async () => {
  const temporal = twoBuilds();
  temporal.addRuns('a', 3);
  temporal.addRuns('a', 2, { movedTo: 'b' });
  temporal.addRuns('a', 1, { upgrades: true });
  const status = await temporal.deployment.status();
  expect(status).toMatchObject({ deployment: 'agents', current: 'a' });
  expect(status).not.toHaveProperty('token');
  expect(status.builds.map(({ build, state, runs }) => [build, state, runs])).toEqual([
    ['b', 'inactive', 2],
    ['a', 'current', 3],
  ]);
});
