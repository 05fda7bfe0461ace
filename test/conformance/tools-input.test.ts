/**
 * Calls that a server answers with questions, against a server made with the SDK's own parts (F1).
 * Each `tools/call` and each execution is counted where it happens.
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import type { CallEnding, Leg, ToolInput } from '../../activities/mcp/port.ts';
import { defined } from '../../contracts/defined.ts';
import type { InputAnswer, InputResponse } from '../../contracts/schemas/input.ts';
import { answersTo, withAnswers } from '../../domain/request/input.ts';
import { aCall, aConnection, aDefinition } from '../support/activities/tool-call.ts';
import { loopbackEgress } from '../support/egress.ts';
import { type MrtrServer, startMrtrServer } from '../support/servers/mrtr-server.ts';
import { startRawServer } from '../support/servers/raw-server.ts';

let server: MrtrServer;

beforeEach(async () => {
  server = await startMrtrServer();
});

afterEach(async () => {
  await server.close();
});

const NEW: ToolInput = { answers: [], dispatch: '0.1' };

/** Another worker each time: nothing is shared but what is given. */
async function send(tool: string, input?: ToolInput, more: object = {}, url = server.url): Promise<CallEnding> {
  const call = aCall({ definition: aDefinition({ name: tool }), ...defined({ input }), ...more });
  return await createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() }).call(
    aConnection({ url }),
    call,
  );
}

type Paused = Extract<CallEnding, { kind: 'input' }>;

function asked(ending: CallEnding): Paused {
  if (ending.kind !== 'input') throw new Error(JSON.stringify(ending));
  return ending;
}

/** What a run gives to the next dispatch when these answers came. */
function answered(
  paused: Paused,
  responses: Record<string, InputResponse>,
  before: readonly InputAnswer[] = [],
): ToolInput & { leg: Leg } {
  const answers = withAnswers(before, paused.requests, responses);
  const used = [...paused.used, ...Object.values(paused.requests).map(({ hash }) => hash)];
  const leg = { responses: answersTo(paused.requests, answers).responses, used };
  // Through JSON, as history keeps it.
  const kept = structuredClone({ answers, dispatch: '1.1', leg });
  return { ...kept, leg: { ...kept.leg, ...defined({ state: paused.state }) } };
}

const yes: InputResponse = { action: 'accept', content: { sure: true } };

describe('a form', () => {
  test('is put before people, and the call goes on with their answer on another worker: executed once', async () => {
    const first = asked(await send('deploy', NEW));
    expect(first.requests).toEqual({
      confirm: {
        kind: 'form',
        message: 'Deploy to production?',
        fields: { sure: { type: 'boolean' } },
        required: ['sure'],
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    });
    expect(first.state).toBe(server.states[0]);
    expect(server.executed).toEqual([]);
    const last = await send('deploy', answered(first, { confirm: yes }));
    expect(last).toMatchObject({ kind: 'executed', isError: false });
    expect(server.executed).toEqual(['deployed, sure: true']);
    // A server that honours idempotency keys must not take the second leg for the first.
    expect(new Set(server.legs.map(({ key }) => key)).size).toBe(2);
    expect(server.legs[0]?.key).toBe('run-1/t1.c0');
  });

  test('INV-S1: neither the state nor a part of it is in what is said of the form or the result', async () => {
    const first = asked(await send('deploy', NEW));
    const { state = '', ...told } = first;
    expect(state.length).toBeGreaterThan(40);
    expect(JSON.stringify(told)).not.toContain(state);
    expect(JSON.stringify(await send('deploy', answered(first, { confirm: yes })))).not.toContain(state);
  });

  test('INV-S1: a question that quotes its own state is asked without it, and so is told a result that quotes it', async () => {
    const state = 'state-of-this-question-that-only-its-server-may-read';
    const params = { message: `Go on from ${state}?`, requestedSchema: { type: 'object', properties: {} } };
    const inputRequests = { confirm: { method: 'elicitation/create', params } };
    let legs = 0;
    const quoting = await startRawServer({
      era: 'modern',
      onCall: ({ result }) => {
        legs += 1;
        if (legs === 1) return result({ resultType: 'input_required', inputRequests, requestState: state });
        return result({ content: [{ type: 'text', text: `Went on from ${state}.` }] });
      },
    });
    try {
      const paused = asked(await send('deploy', NEW, {}, quoting.url));
      expect(paused.state).toBe(state);
      expect(paused.requests['confirm']).toMatchObject({ message: 'Go on from [redacted]?' });
      const ended = await send('deploy', answered(paused, { confirm: { action: 'accept' } }), {}, quoting.url);
      expect(ended).toMatchObject({
        kind: 'executed',
        result: { content: [{ text: 'Went on from [redacted].' }] },
      });
    } finally {
      await quoting.close();
    }
  });

  test.each(['decline', 'cancel'] as const)('%s goes to the server, which ends the call itself', async (action) => {
    const first = asked(await send('deploy', NEW));
    const last = await send('deploy', answered(first, { confirm: { action } }));
    expect(last).toMatchObject({ kind: 'executed' });
    expect(server.executed).toEqual([`not deployed: ${action}`]);
  });
});

describe('a state that the server takes no more', () => {
  test('the call begins anew and the same question gets the same answer: executed once, nobody is asked again', async () => {
    const first = asked(await send('deploy', NEW));
    server.expireStates();
    const last = await send('deploy', answered(first, { confirm: yes }));
    expect(last).toMatchObject({ kind: 'executed', isError: false });
    expect(server.executed).toEqual(['deployed, sure: true']);
    // Refused in front of the handler, then from the start. A key that was used would bring the old state back.
    expect(server.legs).toHaveLength(3);
    expect(new Set(server.legs.map(({ key }) => key)).size).toBe(3);
  });

  test('INV-G4: another text is another question, and is asked', async () => {
    const first = asked(await send('deploy', NEW));
    server.expireStates();
    server.changeQuestions();
    const again = asked(await send('deploy', answered(first, { confirm: yes })));
    expect(again.requests['confirm']).toMatchObject({ message: 'Deploy ALL services?' });
    expect(again.used).toEqual([]);
    expect(server.executed).toEqual([]);
  });

  test('two rounds: both answers are given again', async () => {
    const first = asked(await send('book', NEW));
    const one = answered(first, { who: { action: 'accept', content: { name: 'Ann' } } });
    const second = asked(await send('book', one));
    expect(second.requests['pay']).toMatchObject({
      fields: { card: { type: 'choice', options: [{ value: 'visa' }, { value: 'amex' }] } },
    });
    const two = answered(second, { pay: { action: 'accept', content: { card: 'visa' } } }, one.answers);
    server.expireStates();
    expect(await send('book', two)).toMatchObject({ kind: 'executed' });
    expect(server.executed).toEqual(['booked for Ann, {"card":"visa"}']);
  });

  test('two rounds, the second question changed: only that is asked, and the first answer stands', async () => {
    const first = asked(await send('book', NEW));
    const one = answered(first, { who: { action: 'accept', content: { name: 'Ann' } } });
    const second = asked(await send('book', one));
    const two = answered(second, { pay: { action: 'accept', content: { card: 'visa' } } }, one.answers);
    server.expireStates();
    server.changeQuestions();
    const third = asked(await send('book', two));
    expect(Object.keys(third.requests)).toEqual(['pay']);
    expect(third.requests['pay']).toMatchObject({ fields: { account: { type: 'text' } } });
    const three = answered(third, { pay: { action: 'accept', content: { account: 'DE1' } } }, two.answers);
    expect(await send('book', three)).toMatchObject({ kind: 'executed' });
    expect(server.executed).toEqual(['booked for Ann, {"account":"DE1"}']);
  });

  test('begun anew already, a refused state ends the call: it is not tried for ever', async () => {
    const first = asked(await send('deploy', NEW));
    server.expireStates();
    const input = { ...answered(first, { confirm: yes }), begunAnew: true as const };
    expect(await send('deploy', input)).toMatchObject({ kind: 'refused', code: 'TOOL_REFUSED' });
    expect(server.executed).toEqual([]);
  });
});

test('a server of an earlier revision is never told that it may ask: its question would die with the call', async () => {
  const legacy = await startRawServer({ era: 'legacy', onCall: ({ result }) => result({ content: [] }) });
  const call = aCall({ input: NEW });
  await createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() }).call(
    aConnection({ url: legacy.url }),
    call,
  );
  const said = JSON.stringify(legacy.seen);
  expect(said).toContain('"initialize"');
  expect(said).not.toContain('elicitation');
  await legacy.close();
});

describe('what ends otherwise', () => {
  test('an answer is used once: a server that repeats its question is told nothing by itself', async () => {
    const first = asked(await send('stubborn', NEW));
    const again = asked(await send('stubborn', answered(first, { more: { action: 'accept', content: {} } })));
    expect(again.requests).toEqual(first.requests);
    expect(server.legs).toHaveLength(2);
  });

  test('a server that only wants to be asked again is, with its state', async () => {
    expect(await send('again', NEW)).toMatchObject({ kind: 'executed' });
    expect(server.legs.map(({ state }) => state && (JSON.parse(state) as { step: number }).step)).toEqual([
      undefined,
      1,
      2,
    ]);
  });

  test('a URL is shown with its whole host, opened by nobody here, and answered', async () => {
    const first = asked(await send('visit', NEW));
    expect(first.requests['page']).toMatchObject({
      kind: 'url',
      url: 'https://id.example:8443/in?x=1',
      host: 'id.example:8443',
    });
    expect(await send('visit', answered(first, { page: { action: 'accept' } }))).toMatchObject({ kind: 'executed' });
    expect(server.executed).toEqual(['visited: accept']);
  });

  test.each([
    // The SDK's server sees by itself that sampling was not declared.
    ['think', 'refused', 'sampling'],
    ['insecure', 'unknown', 'https'],
  ])('%s: %s, nobody is asked', async (tool, kind, why) => {
    const ending = await send(tool, NEW);
    expect(ending).toMatchObject({ kind, message: expect.stringContaining(why) });
    expect(server.executed).toEqual([]);
  });

  test('a server that may not ask is told so with the call, and the refusal names what to configure', async () => {
    const ending = await send('deploy', undefined, { noInput: 'configure a key in grants.keys' });
    expect(ending).toMatchObject({
      kind: 'refused',
      code: 'TOOL_REFUSED',
      message: expect.stringContaining('configure a key in grants.keys'),
    });
    expect(server.states).toHaveLength(1);
    expect(server.executed).toEqual([]);
  });

  test('a leg that is cancelled before it leaves is not sent, and may be sent later', async () => {
    const first = asked(await send('deploy', NEW));
    const cancel = new AbortController();
    cancel.abort();
    const ending = await send('deploy', answered(first, { confirm: yes }), { signal: cancel.signal });
    expect(ending).toMatchObject({ kind: 'not-sent' });
    expect(server.legs).toHaveLength(1);
  });
});
