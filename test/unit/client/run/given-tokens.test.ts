/** Tokens stand at their servers as `authorization`, and leave this process sealed or not at all (S1.1, S1.2, S1.3, S1.7, S1.8, INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { exportJWK, generateKeyPair } from 'jose';
import { Countersign, type StartRunOptions } from '../../../../client/index.ts';
import { takeTokens } from '../../../../client/run/start-run.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';
import { withCode } from '../../../support/refusal.ts';

const CANARY = 'canary-token-0123456789';
const SPEC = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' } };
const at = (name: string, authorization?: string) => ({ name, authorization });

describe('tokens at servers', () => {
  test('are taken out of the spec, each with its place; the map says the same, and loses where both speak', () => {
    const { spec, tokens } = takeTokens(
      { ...SPEC, servers: [at('desk', 'one'), at('bank'), { name: 'mail' }] },
      { bank: 'two', desk: 'old', mail: undefined },
    );
    expect(spec).toEqual({ ...SPEC, servers: [{ name: 'desk' }, { name: 'bank' }, { name: 'mail' }] });
    expect(Object.fromEntries(tokens)).toEqual({
      desk: { token: 'one', path: 'servers[0].authorization' },
      bank: { token: 'two', path: 'authorizations.bank' },
    });
  });

  test.each([[{ token: CANARY }], [[CANARY]], [7], [null]])(
    'that are no text are refused, and not shown: %#',
    (authorization) => {
      // Sound for the test: callers without types may write anything.
      const take = () => takeTokens({ ...SPEC, servers: [at('desk', authorization as never)] });
      expect(take).toThrow(
        expect.objectContaining({ code: 'SPEC_INVALID', facts: { path: 'servers[0].authorization' } }),
      );
      expect(take).not.toThrow(CANARY);
    },
  );

  test('a spec without a list of servers is left as it is', () => {
    expect(takeTokens(SPEC).spec).toBe(SPEC);
    // Sound for the test: as above.
    const odd = { ...SPEC, servers: 'desk' as never };
    expect(takeTokens(odd).spec).toBe(odd);
  });
});

/** What Temporal is asked to start. */
async function startedWith(options: Omit<StartRunOptions, 'runId'>): Promise<string> {
  const { publicKey } = await generateKeyPair('ECDH-ES+A256KW', { crv: 'P-256', extractable: true });
  const key = { ...(await exportJWK(publicKey)), kid: 'zone' };
  const started: unknown[] = [];
  const client = fakeClient({
    workflow: { start: async (...args: unknown[]) => await Promise.resolve(started.push(args)) },
  });
  const servers = { desk: { url: 'https://desk.example/mcp', key } };
  await new Countersign({ client, servers }).startRun({ runId: 'run-1', ...options });
  return JSON.stringify(started);
}

describe('a run that is started with a token', () => {
  test.each([CANARY, `Bearer ${CANARY}`, `bearer  ${CANARY}`])(
    'has it sealed, and nowhere in clear: %#',
    async (authorization) => {
      const sent = await startedWith({ spec: { ...SPEC, servers: [at('desk', authorization)] } });
      expect(sent).toContain('"grants":[{"server":"desk","jwe":');
      expect(sent).not.toContain('authorization');
      for (const form of [CANARY, Buffer.from(CANARY).toString('base64')]) expect(sent).not.toContain(form);
    },
  );

  test('is the same run whichever way the token was given', async () => {
    const hashOf = (sent: string) => /"memo":\{[^}]*\}/.exec(sent)?.[0];
    const field = hashOf(await startedWith({ spec: { ...SPEC, servers: [at('desk', CANARY)] } }));
    const map = hashOf(
      await startedWith({ spec: { ...SPEC, servers: [{ name: 'desk' }] }, authorizations: { desk: 'another' } }),
    );
    expect(field).toBeDefined();
    expect(field).toBe(map);
  });

  test.each(['Authorization', 'authorization', 'AUTHORIZATION', 'aUthorizatioN'])(
    'S1.2: %s among free headers is refused, and names the field',
    async (name) => {
      // Sound for the test: callers without types may write anything.
      const server = { name: 'desk', headers: { [name]: `Bearer ${CANARY}` } } as never;
      const refused = startedWith({ spec: { ...SPEC, servers: [server] } });
      await expect(refused).rejects.toMatchObject(withCode('AUTHORIZATION_IN_HEADERS', 'authorization of the server'));
      await expect(refused).rejects.not.toMatchObject({ message: expect.stringContaining(CANARY) });
    },
  );

  test('two tokens in one are refused, and not shown', async () => {
    const refused = startedWith({ spec: { ...SPEC, servers: [at('desk', `Bearer Bearer ${CANARY}`)] } });
    await expect(refused).rejects.toMatchObject({ code: 'SPEC_INVALID' });
    await expect(refused).rejects.not.toMatchObject({ message: expect.stringContaining(CANARY) });
  });
});
