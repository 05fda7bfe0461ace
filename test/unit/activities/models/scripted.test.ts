/** The scripted model: steps, repetition, branches. */
import { describe, expect, test } from '@jest/globals';
import { createScriptedModel } from '../../../../activities/models/scripted.ts';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import { Script } from '../../../../contracts/schemas/script.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { EVERY_OUTCOME, modelRequest, OPENING, READ_FILE, succeeded } from '../../../support/models/request.ts';

function results(...outcomes: readonly Outcome[]): Message {
  const named = outcomes.map((outcome, index) => ({
    callId: `t1.c${index}`,
    providerCallId: `p${index}`,
    name: 'x',
    outcome,
  }));
  return { role: 'tool', results: named };
}

async function textOf(steps: unknown, turn = 1, messages: readonly Message[] = OPENING): Promise<string> {
  const { parts } = await createScriptedModel(Script.parse({ steps })).step(modelRequest({ turn, messages }));
  return parts.map((part) => (part.type === 'call' ? part.name : part.text)).join(' ');
}

describe('a scripted model', () => {
  test('takes the step of the turn, a repeated one as often as it says, and ends after the last', async () => {
    const steps = [{ text: 'one' }, { text: 'again {{turn}}', repeat: 3 }, { text: 'last' }];
    const said = await Promise.all([1, 2, 3, 4, 5, 6, 600].map((turn) => textOf(steps, turn)));
    expect(said).toEqual([
      'one',
      'again 2',
      'again 3',
      'again 4',
      'last',
      'The script has ended.',
      'The script has ended.',
    ]);
  });

  test('puts the turn into every string, however deep, and touches nothing else', async () => {
    const given = { path: '{{turn}}.txt', n: 1, deep: [{ note: 'turn {{turn}}/{{turn}}', flag: true, none: null }] };
    const model = createScriptedModel(
      Script.parse({ steps: [{ repeat: 5, calls: [{ tool: 'files/read_file', arguments: given }] }] }),
    );
    const { parts } = await model.step(modelRequest({ turn: 3 }));
    expect(parts).toEqual([
      {
        type: 'call',
        providerCallId: 'scripted-3-0',
        name: READ_FILE.name,
        arguments: { path: '3.txt', n: 1, deep: [{ note: 'turn 3/3', flag: true, none: null }] },
      },
    ]);
  });

  test('a step that says and calls nothing ends without words', async () => {
    const answer = await createScriptedModel(Script.parse({ steps: [{}] })).step(modelRequest());
    expect(answer).toEqual({ parts: [], usage: { inputTokens: 2, outputTokens: 0 }, finish: 'stop' });
  });

  test('INV-D1: the same conversation gives the same answer', async () => {
    const model = createScriptedModel(
      Script.parse({ steps: [{ text: 'a', calls: [{ tool: 'x/y' }, { tool: 'files/list' }] }] }),
    );
    expect(await model.step(modelRequest())).toEqual(await model.step(modelRequest()));
  });
});

describe('a branch', () => {
  const branching = (when: unknown): unknown => [{ text: 'no', branches: [{ when, then: { text: 'yes' } }] }];

  test.each(Object.entries(EVERY_OUTCOME))('is taken on the outcome %s and on no other', async (kind, outcome) => {
    const others = Object.values(EVERY_OUTCOME).filter((other) => other.kind !== kind);
    expect(await textOf(branching({ outcome: kind }), 1, [...OPENING, results(outcome)])).toBe('yes');
    expect(await textOf(branching({ outcome: kind }), 1, [...OPENING, results(...others)])).toBe('no');
  });

  test('looks at the text that the model reads', async () => {
    const messages = [...OPENING, results(succeeded('the file is locked'))];
    expect(await textOf(branching({ textIncludes: 'is locked' }), 1, messages)).toBe('yes');
    expect(await textOf(branching({ textIncludes: 'is open' }), 1, messages)).toBe('no');
  });

  test('needs every condition of one and the same result', async () => {
    const messages = [...OPENING, results(succeeded('a'), EVERY_OUTCOME.rejected)];
    expect(await textOf(branching({ call: 1, outcome: 'rejected' }), 1, messages)).toBe('yes');
    expect(await textOf(branching({ call: 0, outcome: 'rejected' }), 1, messages)).toBe('no');
    expect(await textOf(branching({ outcome: 'rejected', textIncludes: 'a file' }), 1, messages)).toBe('no');
    expect(await textOf(branching({ call: 2 }), 1, messages)).toBe('no');
  });

  test('looks at the last turn that had calls, past what was said since', async () => {
    const messages = [
      ...OPENING,
      results(EVERY_OUTCOME.denied),
      results(succeeded('a')),
      { role: 'user', text: 'And?' } as const,
    ];
    expect(await textOf(branching({ outcome: 'succeeded' }), 1, messages)).toBe('yes');
    expect(await textOf(branching({ outcome: 'denied' }), 1, messages)).toBe('no');
  });

  test('without results only an empty condition holds, and the first that holds is taken', async () => {
    expect(await textOf(branching({ outcome: 'succeeded' }))).toBe('no');
    expect(await textOf(branching({}))).toBe('yes');
    const first = { when: {}, then: { text: 'first' } };
    expect(await textOf([{ branches: [first, { when: {}, then: { text: 'second' } }] }])).toBe('first');
  });
});
