/** One line of the log: JSON with its message; of an error its code, its server and what it says, and nothing that could quote a secret (INV-S1). */
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import { CountersignError } from '../../../contracts/errors.ts';
import { failureOf } from '../../../contracts/failure.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import { linesTo, lineWriter } from '../../../workers/log.ts';
import { useConfigFolders } from '../../support/config-folder.ts';

const { folder } = useConfigFolders();

const SECRET = 'kept-out-of-every-log';
const config: ConfigInput = {
  models: { clerk: { provider: 'openai', model: 'a', apiKey: SECRET } },
};

function written(fields?: Readonly<Record<string, unknown>>, message = 'Something happened.'): unknown {
  const lines: string[] = [];
  lineWriter(Config.parse(config), (line) => lines.push(line))('warn', message, fields);
  expect(lines).toEqual([expect.stringMatching(/^[^\n]+\n$/)]);
  return JSON.parse(lines.join('')) as unknown;
}

test('INV-S1: what the environment put into a header is taken out of a line', () => {
  const lines: string[] = [];
  const headerSecrets = new Map([['bank', ['of-the-environment']]]);
  const parsed = Config.parse({ servers: { bank: { url: 'https://bank.example.com/mcp' } } });
  lineWriter(parsed, (line) => lines.push(line), headerSecrets)('warn', 'It said of-the-environment.');
  expect(lines).toEqual([expect.stringContaining('It said [redacted].')]);
});

test('level and time are words, fields stand at the top, beside the message', () => {
  expect(written({ server: 'bank', attempt: 3 })).toEqual({
    level: 'warn',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    message: 'Something happened.',
    server: 'bank',
    attempt: 3,
  });
});

test.each([
  ['ours', new CountersignError('TOOL_UNAVAILABLE', 'It is away.', { server: 'bank', status: 503 })],
  ['one that crossed Temporal', failureOf('TOOL_UNAVAILABLE', 'It is away.', { server: 'bank', status: 503 })],
  [
    'one that is the reason of another',
    new ActivityFailure(
      'Activity task failed',
      'callTool',
      '1',
      'MAXIMUM_ATTEMPTS_REACHED',
      '',
      failureOf('TOOL_UNAVAILABLE', 'It is away.', { server: 'bank', status: 503 }),
    ),
  ],
])('an error with a code, %s, tells code, server and words', (_which, error) => {
  expect(written({ error, attempt: 2 })).toMatchObject({
    attempt: 2,
    code: 'TOOL_UNAVAILABLE',
    server: 'bank',
    error: { message: 'It is away.', status: 503 },
  });
});

test('what the line says of server and code itself is not replaced by an error', () => {
  const error = new CountersignError('TOOL_UNAVAILABLE', 'It is away.', { server: 'other' });
  expect(written({ server: 'bank', code: 'X', error })).toMatchObject({ server: 'bank', code: 'X' });
});

test.each([new Error(`401 for ${SECRET}`), ApplicationFailure.create({ message: `who has ${SECRET}`, type: 'Odd' })])(
  'an error without a code tells its name and place, and not what it says',
  (error) => {
    const line = written({ error });
    expect(line).toMatchObject({ error: { name: error.name, made: expect.stringContaining('at ') } });
    expect(JSON.stringify(line)).not.toMatch(/401|who has/);
  },
);

test('an error whose message quotes a stack trace of somebody else tells none of it', () => {
  const error = new Error('It said:\n    at the bank of Ann Doe\n    at (pay.js:1:1)');
  const line = written({ error });
  expect(line).toMatchObject({ error: { made: expect.stringContaining('log-line.test.ts') } });
  expect(JSON.stringify(line)).not.toMatch(/Ann Doe|pay\.js/);
});

test('secrets of the configuration stand in no line', () => {
  expect(JSON.stringify(written({ header: `Bearer ${SECRET}` }, `with ${SECRET}`))).not.toContain(SECRET);
});

test('fields that no line can hold do not lose it', () => {
  const round: Record<string, unknown> = {};
  round['self'] = round;
  expect(written({ round, count: 3n, time: 'then', level: 7, message: 'other' })).toMatchObject({
    level: 'warn',
    message: 'Something happened.',
    count: '3',
    time_: 'then',
    level_: 7,
    message_: 'other',
  });
});

describe('a line that cannot be written', () => {
  test('is dropped, and the next that can is preceded by how many were', () => {
    const lines: string[] = [];
    let isFull = true;
    const write = lineWriter(Config.parse({}), (line) => {
      if (isFull) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
      lines.push(line);
    });
    for (const message of ['first', 'second']) write('info', message);
    isFull = false;
    for (const message of ['third', 'fourth']) write('info', message);
    isFull = true;
    write('info', 'fifth');
    isFull = false;
    write('info', 'sixth');
    const said = lines.map((line) => (JSON.parse(line) as { message: string }).message);
    const [two, one] = ['2 lines of this log could not be written.', '1 line of this log could not be written.'];
    expect(said).toEqual([two, 'third', 'fourth', one, 'sixth']);
    // Half of a line may stand before it.
    expect(lines[0]).toMatch(/^\n\{/);
  });

  test('is not kept by the file, which takes the next one when it has room', async () => {
    const path = join(await folder(), 'log');
    const fd = openSync('/dev/full', 'w');
    const write = lineWriter(Config.parse({}), linesTo(fd));
    write('info', 'lost');
    closeSync(fd);
    // The lowest number that is free, so the same one.
    expect(openSync(path, 'w')).toBe(fd);
    write('info', 'kept');
    closeSync(fd);
    const log = readFileSync(path, 'utf8');
    expect(log).toContain('1 line of this log could not be written.');
    expect(log).toContain('"message":"kept"');
    expect(log).not.toContain('"lost"');
  });
});
