/** A caller's tokens come from the environment and are sealed to keys of the caller's own choice (INV-S1, S1.1). */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { JWK } from 'jose';
import { loadPrivateKeys } from '../../../../activities/tokens/sealed.ts';
import { plain, type Terminal } from '../../../../cli/session/terminal.ts';
import { readAuthorizations, readSealingKeys, sealingTargets, startedAnswer } from '../../../../cli/verbs/start.ts';
import type { MissingTool, RunHandle } from '../../../../client/index.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import { documentOf, errorOf, runCommand } from '../../../support/cli.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { open, seal, TOKEN } from '../../../support/signing/grants.ts';

const { folder } = useConfigFolders();

test('a token is read from the variable that is named', () => {
  expect(readAuthorizations({ tickets: 'TICKETS_TOKEN' }, { TICKETS_TOKEN: 'token-1' })).toEqual({
    tickets: 'token-1',
  });
});

test('a variable that is not set is named', () => {
  expect(() => readAuthorizations({ tickets: 'TICKETS_TOKEN' }, {})).toThrow(/variable TICKETS_TOKEN is not set/);
});

test('a token given in place of the variable is not repeated', () => {
  expect(() => readAuthorizations({ tickets: 'eyJhbGciOi.canary-1' }, {})).toThrow(
    /^(?!.*canary)--authorization tickets=…/,
  );
});

test('`keys` makes a pair that seals and opens; the private half is its owner’s alone and never overwritten', async () => {
  const directory = await folder();
  const made = await runCommand(['keys', '--out', 'zone.pem', '--kid', 'zone-1', '--json'], { directory });
  expect(made.exitCode).toBe(0);
  const jwk = documentOf<JWK & { kid: string }>(made);
  expect(jwk).toEqual({
    kty: 'EC',
    crv: 'P-256',
    x: expect.any(String),
    y: expect.any(String),
    kid: 'zone-1',
    use: 'enc',
    alg: 'ECDH-ES+A256KW',
  });
  expect((await stat(join(directory, 'zone.pem'))).mode & 0o777).toBe(0o600);

  const keys = await loadPrivateKeys([{ kid: 'zone-1', privateKeyFile: 'zone.pem' }], directory);
  const privateKey = keys.get('zone-1');
  if (privateKey === undefined) throw new Error('the key was not read');
  const zone = { kid: 'zone-1', publicJwk: jwk, privateKey, pem: '' };
  expect((await open(zone, await seal(zone), { keys })).accessToken).toBe(TOKEN);

  const again = await runCommand(['keys', '--out', 'zone.pem', '--json'], { directory });
  expect(again.exitCode).toBe(2);
  expect(errorOf(again)).toMatchObject({ code: 'USAGE', message: expect.stringContaining('never overwritten') });
});

test('what `keys > file` writes is what --sealing-key reads', async () => {
  const made = await runCommand(['keys'], { directory: await folder() });
  expect(made.err).toContain('privateKeyFile: countersign.pem');
  const directory = await folder({ 'zone.jwk': made.out });
  expect(await readSealingKeys({ tickets: 'zone.jwk' }, directory)).toEqual({ tickets: JSON.parse(made.out) });
  await expect(readSealingKeys({ tickets: 'nope.jwk' }, directory)).rejects.toMatchObject({
    code: 'SEALING_KEY_MISSING',
  });
});

test('a token goes to the configured URL, else to that of the spec; without either the start is refused', () => {
  const key = { kty: 'EC' };
  const spec = { servers: [{ name: 'tickets', url: 'https://spec.example/mcp' }, 'odd'] };
  expect(sealingTargets({ tickets: key }, { tickets: 'https://own.example/mcp' }, spec)).toEqual({
    tickets: { url: 'https://own.example/mcp', key },
  });
  expect(sealingTargets({ tickets: key }, {}, spec)).toEqual({ tickets: { url: 'https://spec.example/mcp', key } });
  for (const odd of [{}, null, { servers: 3 }, { servers: [null, { name: 'tickets' }] }]) {
    expect(() => sealingTargets({ tickets: key }, {}, odd)).toThrow(/servers\.tickets\.url/);
  }
});

describe('with --wait, what is wrong with a start is told before the result', () => {
  const spec = {
    agent: { name: 'clerk', model: 'main', instructions: 'Close tickets.' },
    input: 'Ticket 4711.',
    initiator: { id: 'ann' },
    servers: [{ name: 'tickets', allowedTools: ['clsoe'] }],
  };
  const TYPING_ERROR: readonly MissingTool[] = [{ server: 'tickets', name: 'clsoe', near: ['close'] }];
  const ENDED = { status: 'completed', output: 'Done.', turns: 1, calls: 0, usage: {}, ledgerLength: 1 };

  /** @param begun what the run says of its beginning */
  async function waited(begun: () => Promise<readonly MissingTool[]>, json?: true) {
    const told: string[] = [];
    const run = {
      runId: 'run-1',
      started: true,
      begun,
      result: async () => {
        told.push('the result');
        return await Promise.resolve(ENDED);
      },
    };
    // Sound: nothing else is asked of the run, and nothing else done at the terminal.
    const handle = run as unknown as RunHandle & { readonly started: boolean };
    const terminal = { paint: plain, err: (text: string) => void told.push(text) } as unknown as Terminal;
    const options = json === undefined ? {} : { json };
    const answer = await startedAnswer(handle, { spec, wait: true, deadline: 60 }, { terminal, options });
    return { told, json: answer.json };
  }

  test('a tool that no server has', async () => {
    const message =
      'servers[0].allowedTools: server tickets has no tool "clsoe". Did you mean close? The run goes on without.';
    const missing = async () => await Promise.resolve(TYPING_ERROR);
    expect((await waited(missing)).told).toEqual([`warning: ${message}\n`, 'the result']);
    const { told, json } = await waited(missing, true);
    const warning = { code: 'TOOL_UNKNOWN', message };
    expect(JSON.parse(told[0] ?? '')).toEqual({ warning });
    expect(json).toEqual({ runId: 'run-1', started: true, warning, result: ENDED });
  });

  test('workers that cannot keep up; a queue without any is told by the wait itself', async () => {
    const refused = (facts: Readonly<Record<string, string>>) => async (): Promise<never> =>
      await Promise.reject(new CountersignError('ENGINE_UNAVAILABLE', 'Nobody has taken it.', facts));
    expect((await waited(refused({}))).told).toEqual(['waiting: Nobody has taken it.\n', 'the result']);
    expect((await waited(refused({ taskQueue: 'runs' }))).told).toEqual(['the result']);
  });
});
