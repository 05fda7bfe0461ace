/** A change of tool policies by command: what is sent, and what is not sent at all (H-7). */
import { describe, expect, test } from '@jest/globals';
import type { Session } from '../../../../cli/session/session.ts';
import { plain } from '../../../../cli/session/terminal.ts';
import { changeTools, decideChange, type ToolsChange } from '../../../../cli/verbs/catalog-changes.ts';
import { defined } from '../../../../contracts/defined.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { CatalogEntry, SetToolPoliciesInput } from '../../../../contracts/schemas/catalog.ts';
import {
  catalogEntry,
  catalogSnapshot,
  connection,
  definition,
  toolSetting,
} from '../../../support/builders/catalog.ts';
import { withCode } from '../../../support/refusal.ts';

const asking = toolSetting({ requiresApproval: true });
const known = catalogEntry({ name: 'read_file', setting: asking });
const changed = catalogEntry({ setting: asking, definition: { hash: definition('second'), refresh: 2 } });
const HASH = definition('second').slice(0, 12);
const options = { tenant: 'acme', as: 'ann' };

const WAITS = {
  changeId: 'change-1',
  digest: 'd'.repeat(64),
  by: { id: 'ann', groups: [] },
  openedAt: '2026-01-31T09:00:00.000Z',
  deadline: '2026-02-01T09:00:00.000Z',
  changes: [{ tool: 'read_file', denied: false }],
};

interface Sent {
  readonly answer: Awaited<ReturnType<typeof changeTools>>;
  readonly messages: readonly SetToolPoliciesInput[];
}

/** A catalog that takes whatever it is sent. */
async function change(
  wanted: Omit<ToolsChange, 'server'>,
  {
    over = {},
    fails,
    entries = [known, changed],
    takes = (message) => ({ status: 'applied', policyVersion: message.expectedVersion + 1 }),
    afterwards,
    definitions = new CountersignError('ARTIFACT_MISSING', 'Elsewhere.'),
  }: {
    readonly over?: object;
    readonly fails?: CountersignError;
    readonly entries?: readonly CatalogEntry[];
    readonly takes?: (message: SetToolPoliciesInput) => object;
    /** The error with which reading the catalog fails after the change. */
    readonly afterwards?: CountersignError;
    readonly definitions?: CountersignError;
  } = {},
): Promise<Sent> {
  const shown = { connection: connection({ trusted: true }), policyVersion: 4, pending: [WAITS] };
  const snapshot = catalogSnapshot(entries, shown);
  const messages: SetToolPoliciesInput[] = [];
  const handle = {
    server: 'files',
    snapshot: async () => {
      if (messages.length > 0 && afterwards !== undefined) throw afterwards;
      return await Promise.resolve(snapshot);
    },
    setToolPolicies: async (message: SetToolPoliciesInput) => {
      messages.push(message);
      if (fails !== undefined) throw fails;
      if (message.changes.length > 1_000) throw new CountersignError('CATALOG_INVALID', 'Too many.');
      return { requestId: message.requestId, ...takes(message) };
    },
    definitions: async () => {
      throw definitions;
    },
  };
  const session = {
    countersign: { catalog: () => handle },
    settings: { policy: { strategy: 'annotations' }, trusted: {} },
  };
  // Sound: it has all that a change uses.
  const answer = await changeTools(
    session as unknown as Session,
    { ...options, ...over },
    { server: 'files', ...wanted },
  );
  return { answer, messages };
}

const allow = { change: { requiresApproval: false, denied: false }, acknowledge: 'always' } as const;
const ask = { change: { requiresApproval: true }, acknowledge: 'named' } as const;

describe('what is sent', () => {
  test('names version, sender and the definition that was read', async () => {
    const { messages } = await change({ tools: ['read_file', 'read_file'], ...allow }, { over: { group: ['ops'] } });
    expect(messages).toEqual([
      {
        requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        by: { id: 'ann', groups: ['ops'] },
        expectedVersion: 4,
        changes: [{ tool: 'read_file', requiresApproval: false, denied: false, acknowledge: definition('first') }],
      },
    ]);
  });

  test('of a tool that has changed needs its hash, and then takes notice of it, among others or alone', async () => {
    const { messages } = await change({ tools: ['read_file', 'write_file'], hashes: [HASH], ...allow });
    expect(messages[0]?.changes.map(({ acknowledge }) => acknowledge)).toEqual([
      definition('first'),
      definition('second'),
    ]);
    const named = await change({ tools: ['read_file', 'write_file'], hashes: [HASH], ...ask });
    expect(named.messages[0]?.changes.map(({ acknowledge }) => acknowledge)).toEqual([undefined, definition('second')]);
    const unread = await change({ tools: ['write_file'], ...ask });
    expect(unread.messages[0]?.changes).toEqual([{ tool: 'write_file', requiresApproval: true }]);
  });

  test('for all tools is what changes something, and nothing where nothing does', async () => {
    expect((await change({ tools: [], all: true, change: { enabled: false } })).messages[0]?.changes).toHaveLength(2);
    const { messages, answer } = await change({ tools: [], all: true, change: { enabled: true } });
    expect(messages).toEqual([]);
    expect(answer.json).toMatchObject({ status: 'unchanged', tools: [] });
  });

  const MANY = Array.from({ length: 1_400 }, (_, index) => catalogEntry({ name: `tool-${index}` }));
  const all = { tools: [], all: true, change: { denied: true } };

  test('for all tools of a catalog that has more than one message takes goes in several, each on the version of the one before', async () => {
    const { messages } = await change(all, { entries: MANY, over: { requestId: 'mine' } });
    expect(messages.map(({ changes, expectedVersion }) => [changes.length, expectedVersion])).toEqual([
      [1_000, 4],
      [400, 5],
    ]);
    expect(new Set(messages.flatMap(({ changes }) => changes.map(({ tool }) => tool))).size).toBe(1_400);
    expect(messages.map(({ requestId }) => requestId === 'mine')).toEqual([true, false]);
  });

  describe('in several messages', () => {
    test('is not told as applied where one of them waits for a second administrator', async () => {
      const { answer, messages } = await change(all, {
        entries: MANY,
        takes: ({ changes, expectedVersion }) =>
          changes.length === 1_000
            ? { status: 'waiting', changeId: 'change-1', policyVersion: expectedVersion }
            : { status: 'applied', policyVersion: expectedVersion + 1 },
      });
      expect(messages.map(({ expectedVersion }) => expectedVersion)).toEqual([4, 4]);
      expect(answer.json).toMatchObject({ status: 'waiting', changeId: 'change-1', change: WAITS });
      expect(answer.text(plain)).toContain('change-1');
    });

    test('is said to be taken in part where a later one is refused', async () => {
      const refused = change(all, {
        entries: MANY,
        takes: ({ changes, expectedVersion }) => {
          if (changes.length < 1_000)
            throw new CountersignError('CATALOG_VERSION_CONFLICT', 'Somebody has changed it; nothing was changed.');
          return { status: 'applied', policyVersion: expectedVersion + 1 };
        },
      });
      await expect(refused).rejects.toMatchObject({
        code: 'CATALOG_VERSION_CONFLICT',
        message:
          'Somebody has changed it; nothing was changed. That is said of the last 400 of 1400 tools: the change of the first 1000 was taken. To go on, give the command once more.',
      });
    });
  });

  test('is told as done, also where verdicts cannot be told here', async () => {
    const { answer } = await change({ tools: ['read_file'], change: { denied: true } });
    expect(answer.json).toMatchObject({ status: 'applied', tools: [{ name: 'read_file', verdict: undefined }] });
    const definitions = new CountersignError('ARTIFACT_CORRUPT', 'It is another one.');
    const corrupt = await change({ tools: ['read_file'], change: { denied: true } }, { definitions });
    expect(corrupt.answer.json).toMatchObject({ status: 'applied' });
  });

  test('is told as done where the catalog cannot be read afterwards', async () => {
    const afterwards = new CountersignError('ENGINE_UNAVAILABLE', 'It was not read in time.', { server: 'files' });
    const done = change({ tools: ['read_file'], change: { denied: true } }, { afterwards });
    await expect(done).rejects.toMatchObject({
      code: 'ENGINE_UNAVAILABLE',
      message: expect.stringMatching(
        /^The catalog has taken it \(applied, version 5\): do not send it again\. .*in time\.$/,
      ),
      facts: { server: 'files', status: 'applied', version: 5 },
    });
  });
});

describe('what is not sent', () => {
  test.each([
    ['a tool that has changed, by its name alone', { tools: ['write_file'], ...allow }],
    ['a tool that has changed, among others', { tools: ['read_file', 'write_file'], ...allow }],
    ['a hash that it no longer has', { tools: ['write_file'], hashes: [definition('first').slice(0, 12)], ...allow }],
    ['a hash that no named tool has', { tools: ['read_file'], hashes: ['0123456789'], ...allow }],
    ['the same, to ask', { tools: ['read_file'], hashes: ['0123456789'], ...ask }],
  ])('%s', async (_what, wanted) => {
    await expect(change(wanted)).rejects.toMatchObject(
      withCode('DEFINITION_CHANGED', 'countersign catalog diff files --tenant acme'),
    );
  });

  test.each([
    ['no tool', { tools: [] }, 'USAGE'],
    ['tools and all', { tools: ['read_file'], all: true }, 'USAGE'],
    ['a tool that is not there', { tools: ['red_file'] }, 'TOOL_UNKNOWN'],
  ])('%s', async (_what, wanted, code) => {
    await expect(change({ ...wanted, change: { denied: true } })).rejects.toMatchObject({ code });
  });

  test('a tool that is not there is told with the one that was meant', async () => {
    await expect(change({ tools: ['red_file'], change: {} })).rejects.toThrow('Did you mean read_file');
  });
});

test('where the answer got lost, the message can be sent again as the same', async () => {
  const fails = new CountersignError('RESULT_UNCERTAIN', 'No answer.');
  const lost = change({ tools: ['read_file'], change: { denied: true } }, { fails });
  await expect(lost).rejects.toThrow(/^No answer\. Here: add --request-id [0-9a-f-]{36} --expected-version 4$/);
  const again = change(
    { tools: ['read_file'], change: { denied: true } },
    { over: { requestId: 'r-1', expectedVersion: 3 } },
  );
  expect((await again).messages).toMatchObject([{ requestId: 'r-1', expectedVersion: 3 }]);
});

test('where the answer to a decision got lost, it names what the change no longer tells: its digest', async () => {
  const digest = 'd'.repeat(64);
  let pending: readonly object[] = [{ changeId: 'change-1', digest }];
  const sent: object[] = [];
  const handle = {
    snapshot: async () => await Promise.resolve({ pending, entries: [] }),
    decide: async (message: object) => {
      sent.push(message);
      if (sent.length > 1) throw new CountersignError('ALREADY_DECIDED', 'It is the receipt.');
      pending = [];
      throw new CountersignError('RESULT_UNCERTAIN', 'No answer.');
    },
  };
  // Sound: a decision asks nothing else before its answer.
  const session = { countersign: { catalog: () => handle } } as unknown as Session;
  const decision = { server: 'files', changeId: 'change-1', verdict: 'approve' } as const;
  const lost = await decideChange(session, options, decision).then(
    () => 'taken',
    (error: unknown) => String(error),
  );
  const [, requestId, named] = /Here: add --request-id (\S+) --digest (\S+)$/.exec(lost) ?? [];
  expect(named).toBe(digest);
  const again = { ...options, ...defined({ requestId, digest: named }) };
  await expect(decideChange(session, again, decision)).rejects.toThrow('It is the receipt.');
  expect(sent[1]).toEqual(sent[0]);
});
