/** A token that is minted for a list ends with it, whatever becomes of the list (INV-S2, RFC 7009). */
import { beforeEach, expect, test } from '@jest/globals';
import { listAuthorized, type ServerAccess } from '../../../../activities/discovery/access.ts';
import type { ToolListing } from '../../../../activities/mcp/port.ts';
import type { MintedToken, TokenRequest } from '../../../../activities/tokens/port.ts';
import { CountersignError, type ErrorCode } from '../../../../contracts/errors.ts';

const EMPTY: ToolListing = { tools: [], refused: [] };
let minted: string[];
let ended: string[];
let fails: readonly (ErrorCode | undefined)[];
let none: ErrorCode | undefined;
let same: boolean;
let bare: boolean;
beforeEach(() => {
  [minted, ended, fails, none, same, bare] = [[], [], [], undefined, false, false];
});

async function mint({ refused }: TokenRequest): Promise<MintedToken> {
  if (refused !== undefined && none !== undefined) throw new CountersignError(none, 'there is no other.');
  const token = same ? 'token-1' : `token-${minted.length + 1}`;
  minted.push(token);
  const release = (): void => void ended.push(token);
  return { ...(bare ? {} : { accessToken: token }), evidence: { strategy: 'none' }, secrets: [], release };
}

async function list(access: ServerAccess = { headers: {}, protocol: 'auto' }): Promise<unknown> {
  let at = 0;
  const request = {
    run: { namespace: 'default', workflowId: 'run-1', specHash: '' },
    server: 'files',
    serverUrl: 'https://files.example/mcp',
  };
  return await listAuthorized({
    broker: { mint },
    server: {
      list: async () => {
        const code = fails[(at += 1) - 1];
        if (code !== undefined) throw new CountersignError(code, `refused ${at}.`, { server: 'files' });
        return EMPTY;
      },
    },
    request,
    access,
    signal: new AbortController().signal,
  }).then(
    ({ listing, token }) => ({ listing, token: token.accessToken }),
    (error: unknown) => (error instanceof CountersignError ? { code: error.code, message: error.message } : error),
  );
}

test('once it is there', async () => {
  expect(await list()).toEqual({ listing: EMPTY, token: 'token-1' });
  expect([minted, ended]).toEqual([['token-1'], ['token-1']]);
});

test('both of two, after a 401', async () => {
  fails = ['TOOL_UNAUTHORIZED'];
  expect(await list()).toEqual({ listing: EMPTY, token: 'token-2' });
  expect(ended).toEqual(['token-1', 'token-2']);
});

test('both, where the second is refused as well; there is no third', async () => {
  fails = ['TOOL_UNAUTHORIZED', 'TOOL_UNAUTHORIZED'];
  expect(await list()).toEqual({ code: 'TOOL_UNAUTHORIZED', message: 'refused 2.' });
  expect([minted, ended]).toEqual([
    ['token-1', 'token-2'],
    ['token-1', 'token-2'],
  ]);
});

test('one that is given out again is not sent again', async () => {
  [same, fails] = [true, ['TOOL_UNAUTHORIZED']];
  expect(await list()).toEqual({ code: 'TOOL_UNAUTHORIZED', message: 'refused 1.' });
  expect(ended).toEqual(minted);
});

test('no other failure is answered with a second token; nor is a 401 where none was sent', async () => {
  fails = ['DISCOVERY_FAILED'];
  expect(await list()).toMatchObject({ code: 'DISCOVERY_FAILED' });
  [bare, fails] = [true, ['TOOL_UNAUTHORIZED']];
  expect(await list()).toMatchObject({ code: 'TOOL_UNAUTHORIZED' });
  expect(ended).toEqual(['token-1', 'token-2']);
});

test('where no other token is to be had the refusal stands, with the reason; what may pass is tried again', async () => {
  [none, fails] = ['TOKEN_REFUSED', ['TOOL_UNAUTHORIZED']];
  expect(await list()).toEqual({ code: 'TOOL_UNAUTHORIZED', message: 'refused 1. there is no other.' });
  none = 'TOKEN_UNAVAILABLE';
  expect(await list()).toMatchObject({ code: 'TOKEN_UNAVAILABLE' });
  expect(ended).toEqual(['token-1', 'token-2']);
});

test('also where nothing can be sent with it; a fault without a code is a list that cannot be had', async () => {
  const broken: ServerAccess = {
    protocol: 'auto',
    get headers(): never {
      throw new TypeError('with a secret in it');
    },
  };
  expect(await list(broken)).toEqual({
    code: 'DISCOVERY_FAILED',
    message: 'The tools of server "files" could not be listed: a fault of this worker (TypeError).',
  });
  expect(ended).toEqual(['token-1']);
});
