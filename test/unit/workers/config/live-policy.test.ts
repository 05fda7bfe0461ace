/** The policy of now: what a changed file does, and what a bad one does not (INV-G4). */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { CountersignError } from '../../../../contracts/errors.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { loadConfig, readConfigFile } from '../../../../workers/config/load.ts';
import { followPolicyFile, type LivePolicy, withLivePolicy } from '../../../../workers/config/live-policy.ts';
import { followPolicy } from '../../../../workers/worker.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { until } from '../../../support/until.ts';

const BEFORE = 'policy: { strategy: never, servers: { bank: { default: deny } } }\n';
const STRICTER = 'policy: { strategy: always }\n';

const { folder } = useConfigFolders();
let directory: string;
let path: string;
let told: string[];

beforeEach(async () => {
  directory = await folder();
  path = join(directory, 'countersign.yaml');
  told = [];
  await writeFile(path, BEFORE);
});

/** Looked at by hand. */
function followed(environment: Record<string, string> = {}): LivePolicy {
  const config = Config.parse({ policy: { strategy: 'never', servers: { bank: { default: 'deny' } } } });
  const say = (message: string): void => void told.push(message);
  return followPolicyFile({ config, path }, environment, { error: say, warn: say }, 0);
}

async function look(live: LivePolicy, times = 2): Promise<void> {
  for (let at = 0; at < times; at += 1) await live.look();
}

/** Looks at the policy of before, and then at this text in its place. */
async function changedTo(text: string, live = followed()): Promise<LivePolicy> {
  await look(live);
  await writeFile(path, text);
  await look(live);
  return live;
}

test('what has not changed is not told', async () => {
  const live = followed();
  const before = live.current;
  await look(live, 4);
  expect(live.current).toBe(before);
  expect(told).toEqual([]);
});

describe('a changed file', () => {
  test('is in force once two looks have found it the same', async () => {
    const live = followed();
    await look(live);
    await writeFile(path, STRICTER);
    await live.look();
    expect(live.current.strategy).toBe('never');
    await live.look();
    expect(live.current).toMatchObject({ strategy: 'always' });
    expect(told).toEqual([
      expect.stringMatching(/^Policy has changed: [0-9a-f]{12} of .*countersign\.yaml is in force\.$/),
    ]);
  });

  test('changes nothing if it names a channel that the worker does not have', async () => {
    const rules = '[{ id: a, then: ask, notify: [{ channel: gone }] }]';
    const live = await changedTo(`policy: { strategy: always, rules: ${rules} }\n`);
    expect(live.current.strategy).toBe('never');
    expect(told.join()).toContain('policy.rules[0].notify[0].channel');
  });

  test('may replace the one before by rename, and take values from the environment', async () => {
    const live = followed({ WHY: 'An incident.' });
    await look(live);
    await writeFile(`${path}.new`, 'policy: { halt: { reason: "${WHY}" } }\n');
    await rename(`${path}.new`, path);
    await look(live);
    expect(live.current.halt).toEqual({ reason: 'An incident.' });
    expect(told.join('\n')).toContain('policy.halt is in force');
  });

  test('with a halt of a server that is not configured is in force, and the log says so', async () => {
    await changedTo('policy: { halt: { reason: Now., servers: [bnak] } }\n');
    expect(told.join('\n')).toContain('policy.halt.servers[0] halts bnak only where');
  });

  test('is seen through the configuration that activities hold', async () => {
    const live = followed();
    const config = Config.parse({});
    const { config: shown } = withLivePolicy({ config, path, baseDirectory: directory }, live);
    expect(shown.policy.strategy).toBe('never');
    await changedTo(STRICTER, live);
    expect(shown.policy.strategy).toBe('always');
    expect(shown.taskQueue).toBe(config.taskQueue);
  });
});

describe('INV-G4: keeps the policy of before, and says why once', () => {
  test.each([
    ['that is not YAML', 'policy: {', 'is not valid: line 1'],
    ['with an unknown field', 'policy: { strategie: never }', 'policy.strategie is not a known field'],
    ['with a strategy that there is not', 'policy: { strategy: sometimes }', 'policy.strategy'],
    [
      'with a condition that cannot be read',
      'policy: { rules: [{ id: a, when: x, then: deny }] }',
      'policy.rules\\[0\\].when',
    ],
    ['with glass that never ends', 'policy: { rules: [{ id: a, then: allow, breakGlass: { reason: x } }] }', 'until'],
    [
      'with glass that does not allow',
      "policy: { rules: [{ id: a, then: deny, breakGlass: { reason: x, until: '2026-01-01T00:00:00.000Z' } }] }",
      'must be allow',
    ],
    ['that is empty', '', 'has no policy any more'],
    ['without a policy', 'servers: {}', 'has no policy any more'],
    ['that names a variable there is not', 'policy: { halt: { reason: "${NOWHERE}" } }', 'NOWHERE'],
  ])('a file %s', async (_, text, reason) => {
    const live = await changedTo(text);
    await look(live, 3);
    expect(live.current).toMatchObject({ strategy: 'never', servers: { bank: { default: 'deny' } } });
    expect(told).toEqual([expect.stringMatching(new RegExp(`^The policy of before stays in force\\..*(${reason})`))]);
    await writeFile(path, STRICTER);
    await look(live);
    expect(live.current.strategy).toBe('always');
  });

  test('a file that is gone', async () => {
    const live = followed();
    await look(live);
    await rm(path);
    await look(live, 4);
    expect(live.current.strategy).toBe('never');
    expect(told).toEqual([
      `The policy of before stays in force. The configuration file ${path} cannot be read (ENOENT). Put it back, or let this process read it: it is read again by itself.`,
    ]);
  });

  test('a file that is wrong, by its whole path', async () => {
    await changedTo('policy: { strategie: never }');
    expect(told).toEqual([expect.stringContaining(`The configuration file ${path} is not valid: policy.strategie`)]);
  });
});

test('INV-G4: a file that could not be read for a moment is read again, and told once', async () => {
  let isOut = true;
  const say = (message: string): void => void told.push(message);
  const live = followPolicyFile(
    { config: Config.parse({}), path },
    {},
    { error: say, warn: say },
    0,
    async (...file) => {
      if (!isOut) return await readConfigFile(...file);
      const cause = Object.assign(new Error('too many open files'), { code: 'EMFILE' });
      throw new CountersignError('CONFIG_INVALID', 'The file cannot be read (EMFILE).', {}, { cause });
    },
  );
  await look(live, 4);
  expect(told).toEqual([expect.stringContaining('cannot be read (EMFILE)')]);
  isOut = false;
  await live.look();
  expect(live.current).toMatchObject({ servers: { bank: { default: 'deny' } } });
});

test('by itself it looks again and again, until it is stopped', async () => {
  const config = Config.parse({});
  const say = (message: string): void => void told.push(message);
  const live = followPolicyFile({ config, path }, {}, { error: say, warn: say }, 5);
  try {
    await until(() => (live.current.strategy === 'never' ? true : undefined), { what: 'the policy of the file' });
  } finally {
    live.stop();
  }
});

test('a worker goes on taking the variables of its policy from where its configuration had them', async () => {
  await writeFile(path, 'policy: { strategy: "${STRATEGY:-never}" }\n');
  const loaded = await loadConfig(path, { STRATEGY: 'always' });
  const closed: { close(): Promise<void> }[] = [];
  const { config } = followPolicy(loaded, closed, {
    error: (line) => told.push(line),
    warn: (line) => told.push(line),
  });
  expect(config.policy.strategy).toBe('always');
  await writeFile(path, 'policy: { strategy: "${STRATEGY:-never}", halt: { reason: Stop. } }\n');
  await until(() => told.length > 0, { what: 'the changed policy' });
  expect(config.policy).toMatchObject({ strategy: 'always', halt: { reason: 'Stop.' } });
  for (const each of closed) await each.close();
});
