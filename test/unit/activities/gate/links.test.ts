/** A read leaves only where the run's own conversation has the link: dispatch believes nothing it is given (INV-G1). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { checkLink } from '../../../../activities/gate/links.ts';
import { READ_RESOURCE } from '../../../../contracts/names.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { assembleToolset } from '../../../../domain/run/toolset.ts';
import type { Approved } from '../../../../domain/state/call.ts';
import { callOf } from '../../../../domain/state/run.ts';
import { dispatchOf } from '../../../support/builders/dispatch.ts';
import { approvedBy } from '../../../support/builders/pause.ts';
import { askingRun } from '../../../support/builders/run.ts';
import { serverTools, toolTarget } from '../../../support/builders/tool.ts';

const config = Config.parse({
  servers: {
    docs: { url: 'https://docs.example/mcp', resourceLinks: 'read' },
    files: { url: 'https://files.example/mcp', resourceLinks: 'read' },
    silent: { url: 'https://silent.example/mcp' },
  },
});
const loadToolset = async () =>
  assembleToolset([{ tools: serverTools('docs', ['search']) }, { tools: serverTools('files', ['list']) }]);
const linking: Message = {
  role: 'tool',
  results: [
    {
      callId: 't1.c0',
      providerCallId: 'p',
      name: 'docs__search',
      outcome: { kind: 'succeeded', result: { content: [{ type: 'resource_link', uri: 'doc://1', name: 'one' }] } },
    },
  ],
};

let asked: unknown[][];
let read: () => Promise<Message | undefined>;
beforeEach(() => {
  asked = [];
  read = async () => linking;
});
const readMessage = async (...which: unknown[]): Promise<Message | undefined> => {
  asked.push(which);
  return await read();
};

// Sound: ann has just approved it.
const genuine = dispatchOf(callOf(approvedBy(askingRun()), 't1.c0') as Approved);
const dispatch = (over: Partial<DispatchInput> = {}): DispatchInput => ({
  ...genuine,
  target: toolTarget({ server: 'docs', tool: READ_RESOURCE }),
  arguments: { uri: 'doc://1' },
  link: { at: 3 },
  ...over,
});
const check = (input: DispatchInput) => checkLink(input, { config, loadToolset, readMessage });

test('control: a link that stands where the run says is read, from the run that Temporal names', async () => {
  expect(await check(dispatch())).toBeUndefined();
  expect(asked).toEqual([['run/1', 'run-1', 3]]);
});

describe('refused, and nothing is sent', () => {
  test.each<[string, Partial<DispatchInput>]>([
    ['a foreign URI', { arguments: { uri: 'doc://2' } }],
    ['the link of another server', { target: toolTarget({ server: 'files', tool: READ_RESOURCE }) }],
    ['a URI that is no text', { arguments: { uri: ['doc://1'] } }],
    ['no URI', { arguments: {} }],
    ['a place that is none', { link: { at: -1 } }],
    ['a place between messages', { link: { at: 1.5 } }],
  ])('%s', async (_, over) => {
    expect(await check(dispatch(over))).toMatchObject({ kind: 'refused', code: 'RESOURCE_NOT_LINKED' });
  });

  test('no link at all, and a worker that cannot look', async () => {
    const { link: _, ...bare } = dispatch();
    expect(await check(bare)).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
    expect(asked).toEqual([]);
    expect(await checkLink(dispatch(), { config, loadToolset })).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
  });

  test('a place where nothing stands, or something else', async () => {
    read = async () => undefined;
    expect(await check(dispatch())).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
    read = async () => ({ role: 'user', text: '[resource one: doc://1]' });
    expect(await check(dispatch())).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
  });

  test.each(['silent', 'gone', 'constructor'])('server %s, whose links this worker does not read', async (server) => {
    const target = toolTarget({ server, tool: READ_RESOURCE });
    expect(await check(dispatch({ target }))).toMatchObject({ kind: 'refused', code: 'TOOL_DISABLED' });
  });
});

test('a conversation that cannot be had is no answer: the call was not sent, and may be tried again', async () => {
  read = async () => {
    throw new Error('secret detail');
  };
  await expect(check(dispatch())).rejects.toMatchObject({
    code: 'TOOL_UNAVAILABLE',
    message: expect.not.stringContaining('secret'),
  });
});
