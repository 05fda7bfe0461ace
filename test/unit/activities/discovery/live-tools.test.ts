/** A call meets the tool that was shown, or nothing is called; a list is asked for with a token that ends with it (H-7, F24, INV-G4, INV-S2). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  createLiveTools,
  type CurrentTool,
  listAuthorized,
  type LiveTools,
  type Principal,
  type ServerAccess,
} from '../../../../activities/discovery/access.ts';
import type { ToolListing } from '../../../../activities/mcp/port.ts';
import type { MintedToken, TokenRequest } from '../../../../activities/tokens/port.ts';
import { defined } from '../../../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../../../contracts/errors.ts';
import type { CatalogSnapshot } from '../../../../contracts/schemas/catalog.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import type { ToolDefinition } from '../../../../contracts/schemas/tool.ts';
import type { RunIdentity } from '../../../../contracts/wire/identity.ts';
import { definitionHash } from '../../../../domain/request/digest.ts';
import { READ_RESOURCE_TOOL } from '../../../../domain/run/resource-link.ts';
import type { OfferedTool } from '../../../../domain/run/toolset.ts';
import { catalogSnapshot } from '../../../support/builders/catalog.ts';
import { toolDefinition } from '../../../support/builders/tool.ts';
import { withCode } from '../../../support/refusal.ts';

describe('A call meets the tool that was shown, or nothing is called (H-7, F24, INV-G4)', () => {
  const url = 'https://files.example/mcp';
  const run: RunIdentity = {
    namespace: 'default',
    workflowId: 'run-1',
    initiator: { id: 'ann', groups: [], tenant: 'default' },
    specHash: 'c'.repeat(64),
  };
  const principal: Principal = { run, server: { name: 'files', url } };
  const asOffered = (definition: ToolDefinition): OfferedTool => ({
    modelName: 'files__write_file',
    server: 'files',
    serverUrl: url,
    definition,
    hash: definitionHash(definition),
  });
  const pinned = asOffered(toolDefinition());

  let listing: () => Promise<ToolListing>;
  let lists: { readonly known: boolean; readonly accessToken: string | undefined }[];
  let mints: TokenRequest[];
  let released: string[];
  let clock: number;

  beforeEach(() => {
    listing = async () => ({ tools: [pinned.definition], refused: [] });
    [lists, mints, released, clock] = [[], [], [], 1_000_000];
  });

  function liveTools(recheckSeconds = 60): LiveTools {
    return createLiveTools({
      config: Config.parse({ servers: { files: { url, recheckSeconds, credentials: { kind: 'none' } } } }),
      broker: {
        mint: async (request) => {
          mints.push(request);
          const accessToken = `token-${mints.length}`;
          const release = () => void released.push(accessToken);
          return { accessToken, evidence: { strategy: 'none' }, secrets: [accessToken], release };
        },
      },
      server: {
        call: () => Promise.reject(new Error('nothing is called here')),
        list: async ({ accessToken }, _, { known = false } = {}) => {
          lists.push({ known, accessToken });
          return await listing();
        },
      },
      now: () => clock,
    });
  }

  const looked = (tools: LiveTools, tool = pinned, shown = tool.hash, who = principal): Promise<CurrentTool> =>
    tools.current(who, tool, shown, undefined, new AbortController().signal);
  const current = async (...given: Parameters<typeof looked>): Promise<OfferedTool> => (await looked(...given)).tool;

  test('the tool that reads linked resources is ours: no list has it, and none is asked for', async () => {
    const ours = asOffered(READ_RESOURCE_TOOL);
    expect(await current(liveTools(0), ours)).toBe(ours);
    expect([lists, mints]).toEqual([[], []]);
  });

  test('what a run has just listed is believed for its time, then listed again with a token for listing', async () => {
    const tools = liveTools(60);
    tools.learn(principal, await listing(), undefined);
    clock += 59_999;
    expect(await current(tools)).toBe(pinned);
    expect(lists).toEqual([]);
    clock += 1;
    expect(await current(tools)).toBe(pinned);
    expect(lists).toEqual([{ known: true, accessToken: 'token-1' }]);
    // A vault asks whose the run is, and a token ends with what it was for.
    expect(mints).toMatchObject([{ server: 'files', serverUrl: url, initiator: { id: 'ann', tenant: 'default' } }]);
    expect(released).toEqual(['token-1']);
    expect(mints[0]).not.toHaveProperty('tool');
    // And that counts from now on.
    expect(await current(tools)).toBe(pinned);
    expect(lists).toHaveLength(1);
  });

  test('with 0 the server is asked before every call', async () => {
    const tools = liveTools(0);
    await current(tools);
    await current(tools);
    expect(lists).toHaveLength(2);
  });

  test.each<[string, Partial<ToolDefinition>]>([
    ['title', { title: 'Writer' }],
    ['description', { description: 'Writes a file, and mails it.' }],
    ['input schema', { inputSchema: { type: 'object' } }],
    ['output schema', { outputSchema: { type: 'object' } }],
    ['annotations', { annotations: { readOnlyHint: true } }],
  ])('a tool whose %s has changed is told with what it is now', async (_, change) => {
    const now = toolDefinition(change);
    listing = async () => ({ tools: [now], refused: [] });
    expect(await current(liveTools())).toMatchObject({ definition: now, hash: definitionHash(now) });
  });

  test('what was approved after a change is not compared with what this worker had kept of before it', async () => {
    const tools = liveTools();
    tools.learn(principal, { tools: [pinned.definition], refused: [] }, undefined);
    const now = toolDefinition({ description: 'Writes twice.' });
    listing = async () => ({ tools: [now], refused: [] });
    expect(await current(tools, pinned, definitionHash(now))).toMatchObject({ definition: now });
    expect(lists).toHaveLength(1);
  });

  test('a renamed tool is refused with its name, and the new one is not taken for it', async () => {
    listing = async () => ({ tools: [toolDefinition({ name: 'write_files' })], refused: [] });
    await expect(current(liveTools())).rejects.toMatchObject({
      code: 'TOOL_UNKNOWN',
      message: expect.stringMatching(
        /"files" has no tool "write_file" any more; the call was not sent\. .*"write_files"/,
      ),
    });
  });

  test('a tool that is listed in a way that is not offered is refused with the reason', async () => {
    listing = async () => ({ tools: [], refused: [{ name: 'write_file', reason: 'its title is no string' }] });
    await expect(current(liveTools())).rejects.toMatchObject(withCode('TOOL_UNKNOWN', 'its title is no string'));
  });

  test('a server that cannot be listed is not called; the call may be sent later', async () => {
    listing = () => Promise.reject(new CountersignError('DISCOVERY_FAILED', 'no answer in time', { retryAfterMs: 7 }));
    await expect(current(liveTools())).rejects.toMatchObject({ code: 'TOOL_UNAVAILABLE', facts: { retryAfterMs: 7 } });
  });

  test.each<[string, () => Promise<ToolListing>]>([
    ['a list that fails for want of anything else', () => Promise.reject(new TypeError('only JSON values'))],
    [
      'a definition that has no hash',
      async () => ({ tools: [toolDefinition({ inputSchema: { type: 'object', maximum: Infinity } })], refused: [] }),
    ],
  ])('INV-X1: %s is a call that was not sent, and no fault that nobody names', async (_, given) => {
    listing = given;
    await expect(current(liveTools())).rejects.toMatchObject({
      code: 'TOOL_UNAVAILABLE',
      message: expect.stringMatching(/"files".*TypeError.*was not sent/),
    });
  });

  test('a token that is refused is minted anew, once', async () => {
    listing = () => Promise.reject(new CountersignError('TOOL_UNAUTHORIZED', 'HTTP 401'));
    await expect(current(liveTools())).rejects.toMatchObject({ code: 'TOOL_UNAUTHORIZED' });
    expect(lists.map(({ accessToken }) => accessToken)).toEqual(['token-1', 'token-2']);
    expect(mints[1]).toMatchObject({ refused: 'token-1' });
    expect(released).toEqual(['token-1', 'token-2']);
  });

  test('INV-S1: with what it was listed is told, a refused token too; of what is only believed there is nothing', async () => {
    const tools = liveTools();
    let refusals = 1;
    listing = async () => {
      if ((refusals -= 1) >= 0) throw new CountersignError('TOOL_UNAUTHORIZED', 'HTTP 401');
      return { tools: [pinned.definition], refused: [] };
    };
    const [asked, joined] = await Promise.all([looked(tools), looked(tools)]);
    expect([...new Set(asked.secrets)].toSorted()).toEqual(['token-1', 'token-2']);
    expect(joined.secrets).toEqual(asked.secrets);
    expect((await looked(tools)).secrets).toEqual([]);
  });

  test('calls of one moment ask once, also where the answer is late', async () => {
    let answer: (listed: ToolListing) => void = () => {};
    listing = () => new Promise((resolve) => (answer = resolve));
    const tools = liveTools();
    const calls = [current(tools), current(tools), current(tools)];
    await new Promise(setImmediate);
    answer({ tools: [pinned.definition], refused: [] });
    expect(await Promise.all(calls)).toEqual([pinned, pinned, pinned]);
    expect(lists).toHaveLength(1);
  });

  test('a question that failed for somebody else is asked again', async () => {
    let fail: (error: Error) => void = () => {};
    listing = () => new Promise((_, reject) => (fail = reject));
    const tools = liveTools();
    const [first, second] = [current(tools), current(tools)];
    await new Promise(setImmediate);
    listing = async () => ({ tools: [pinned.definition], refused: [] });
    fail(new CountersignError('DISCOVERY_FAILED', 'the discovery was cancelled'));
    await expect(first).rejects.toMatchObject({ code: 'TOOL_UNAVAILABLE' });
    expect(await second).toBe(pinned);
  });

  test.each<[string, Principal, Principal]>([
    [
      'with another grant',
      { ...principal, grant: { server: 'files', ref: 'of-ann' } },
      { ...principal, grant: { server: 'files', ref: 'of-bob' } },
    ],
    ['of another tenant', principal, runBy('ann', 'acme')],
    ['without a grant', principal, runBy('ben')],
    [
      'whose grant has the same name',
      { ...principal, grant: { server: 'files', ref: 'mine' } },
      { ...runBy('ben'), grant: { server: 'files', ref: 'mine' } },
    ],
  ])('what one principal is listed is not believed for another, nor waited for: %s', async (_, one, other) => {
    const tools = liveTools();
    tools.learn(one, await listing(), undefined);
    await current(tools, pinned, pinned.hash, other);
    expect(lists).toHaveLength(1);
    listing = async () => ({ tools: lists.length === 2 ? [] : [pinned.definition], refused: [] });
    clock += 60_000;
    const [mine, theirs] = await Promise.allSettled([
      current(tools, pinned, pinned.hash, one),
      current(tools, pinned, pinned.hash, other),
    ]);
    expect([mine.status, theirs.status]).toEqual(['rejected', 'fulfilled']);
    expect(mints.at(-1)?.initiator).toEqual(other.run.initiator);
  });

  test('what is listed with one name of credentials is not believed for another', async () => {
    const tools = liveTools();
    const naming = (credentials?: string): CatalogSnapshot =>
      catalogSnapshot([], { connection: { url, trusted: false, ...defined({ credentials }) } });
    const calling = (catalog: CatalogSnapshot | undefined): Promise<CurrentTool> =>
      tools.current(principal, pinned, pinned.hash, catalog, new AbortController().signal);
    tools.learn(principal, await listing(), naming('reader'));
    await calling(naming('reader'));
    expect(lists).toHaveLength(0);
    listing = async () => ({ tools: [], refused: [] });
    for (const catalog of [naming('admin'), naming(), undefined])
      await expect(calling(catalog)).rejects.toMatchObject({ code: 'TOOL_UNKNOWN' });
    expect(mints.map(({ credentials }) => credentials?.name)).toEqual(['admin', undefined, undefined]);
    // What reader was listed stands.
    expect((await calling(naming('reader'))).tool).toBe(pinned);
  });

  function runBy(id: string, tenant = 'default'): Principal {
    return { ...principal, run: { ...run, initiator: { id, groups: [], tenant } } };
  }
});

describe('A token that is minted for a list ends with it, whatever becomes of the list (INV-S2, RFC 7009)', () => {
  const EMPTY: ToolListing = { tools: [], refused: [] };
  let minted: string[];
  let ended: string[];
  let fails: readonly (ErrorCode | undefined)[];
  let none: ErrorCode | undefined;
  let bare: boolean;
  beforeEach(() => {
    [minted, ended, fails, none, bare] = [[], [], [], undefined, false];
  });

  async function mint({ refused }: TokenRequest): Promise<MintedToken> {
    if (refused !== undefined && none !== undefined) throw new CountersignError(none, 'there is no other.');
    const token = `token-${minted.length + 1}`;
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
    const server = {
      list: async () => {
        const code = fails[(at += 1) - 1];
        if (code !== undefined) throw new CountersignError(code, `refused ${at}`, { server: 'files' });
        return EMPTY;
      },
    };
    return await listAuthorized({ mint }, server, request, access, new AbortController().signal).then(
      ({ listing, token }) => ({ listing, token: token.accessToken }),
      (error: unknown) => (error instanceof CountersignError ? { code: error.code, message: error.message } : error),
    );
  }

  test('both of two, after a 401', async () => {
    fails = ['TOOL_UNAUTHORIZED'];
    expect(await list()).toEqual({ listing: EMPTY, token: 'token-2' });
    expect(ended).toEqual(['token-1', 'token-2']);
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
});
