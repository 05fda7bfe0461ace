/** A token for one use, and after a 401 one other: each ends with its use, whatever becomes of it (INV-S2, RFC 6750 §3.1). */
import { expect, test } from '@jest/globals';
import type { MintedToken, TokenRequest } from '../../../../activities/tokens/port.ts';
import { withToken } from '../../../../activities/tokens/broker.ts';

const REQUEST: TokenRequest = {
  run: { namespace: 'default', workflowId: 'run-1', specHash: '' },
  server: 'files',
  serverUrl: 'https://files.example/mcp',
};
const NONE = new Error('there is no other.');

interface Row {
  /** Tokens in the order in which they are given out; undefined is one without a token, an error is none at all. */
  readonly given: readonly (string | undefined | Error)[];
  /** What a use of each token comes to; a thrown error is a fault. */
  readonly uses: readonly ('ok' | '401' | Error)[];
}

async function told({ given, uses }: Row) {
  const [asked, used, ended]: [(string | undefined)[], unknown[], unknown[]] = [[], [], []];
  const mint = async ({ refused }: TokenRequest): Promise<MintedToken> => {
    const token = given[asked.length];
    asked.push(refused);
    if (token instanceof Error) throw token;
    const release = (): void => void ended.push(token);
    const secrets = [`secret of ${token}`];
    const bare = { evidence: { strategy: 'none' }, secrets, release } as const;
    return await Promise.resolve(token === undefined ? bare : { ...bare, accessToken: token });
  };
  const result = await withToken({ mint }, REQUEST, {
    use: async ({ accessToken }, known) => {
      // One that is in use has not ended.
      expect(ended).not.toContain(accessToken);
      used.push(known.length === 0 ? accessToken : [accessToken, ...known]);
      const use = uses[used.length - 1];
      if (use instanceof Error) throw use;
      return await Promise.resolve(use);
    },
    isRefused: (use) => use === '401',
  }).then(
    (got) => (got.kind === 'none' ? got : { ...got, token: got.token.accessToken }),
    (error: unknown) => ({ thrown: error }),
  );
  return { result, asked, used, ended };
}

test.each<[string, Row, Awaited<ReturnType<typeof told>>]>([
  [
    'one that its server takes is used once',
    { given: ['a'], uses: ['ok'] },
    { result: { kind: 'used', used: 'ok', token: 'a' }, asked: [undefined], used: ['a'], ended: ['a'] },
  ],
  [
    'a refused one is replaced once, and its secrets are known to the second use',
    { given: ['a', 'b'], uses: ['401', 'ok'] },
    {
      result: { kind: 'used', used: 'ok', token: 'b' },
      asked: [undefined, 'a'],
      used: ['a', ['b', 'secret of a', 'a']],
      ended: ['a', 'b'],
    },
  ],
  [
    'there is no third',
    { given: ['a', 'b', 'c'], uses: ['401', '401'] },
    {
      result: { kind: 'used', used: '401', token: 'b' },
      asked: [undefined, 'a'],
      used: ['a', ['b', 'secret of a', 'a']],
      ended: ['a', 'b'],
    },
  ],
  [
    'the refused one, given out again, is not sent again, and is ended',
    { given: ['a', 'a'], uses: ['401'] },
    { result: { kind: 'used', used: '401', token: 'a' }, asked: [undefined, 'a'], used: ['a'], ended: ['a', 'a'] },
  ],
  [
    'a refusal stands where none was sent',
    { given: [undefined], uses: ['401'] },
    {
      result: { kind: 'used', used: '401', token: undefined },
      asked: [undefined],
      used: [undefined],
      ended: [undefined],
    },
  ],
  [
    'the refusal stands where there is no other, with the reason',
    { given: ['a', NONE], uses: ['401'] },
    {
      result: { kind: 'used', used: '401', token: 'a', noOther: NONE },
      asked: [undefined, 'a'],
      used: ['a'],
      ended: ['a'],
    },
  ],
  [
    'where there is none at all nothing is used',
    { given: [NONE], uses: [] },
    { result: { kind: 'none', error: NONE }, asked: [undefined], used: [], ended: [] },
  ],
  [
    'a fault of a use is no missing token: it is thrown, and the token is ended',
    { given: ['a'], uses: [NONE] },
    { result: { thrown: NONE }, asked: [undefined], used: ['a'], ended: ['a'] },
  ],
  [
    'so is a fault of the second use',
    { given: ['a', 'b'], uses: ['401', NONE] },
    { result: { thrown: NONE }, asked: [undefined, 'a'], used: ['a', ['b', 'secret of a', 'a']], ended: ['a', 'b'] },
  ],
])('%s', async (_, row, expected) => {
  expect(await told(row)).toEqual(expected);
});
