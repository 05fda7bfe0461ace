/** `parseAs`: what comes from outside becomes a typed value or one clear error that names path and reason (INV-S1). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { CountersignError } from '../../../../contracts/errors.ts';
import { Decision } from '../../../../contracts/schemas/request.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { JsonObject } from '../../../../contracts/schemas/json.ts';
import { parseAs } from '../../../../contracts/schemas/parse.ts';
import { Policy } from '../../../../contracts/schemas/policy.ts';
import { RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import { forAll } from '../../../support/for-all.ts';

const spec = { agent: { name: 'clerk', model: 'scripted' }, input: 'go', initiator: { id: 'ann' } };

function refusal(run: () => unknown): CountersignError {
  try {
    run();
  } catch (error) {
    if (error instanceof CountersignError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('parseAs', () => {
  test('returns the value with its defaults', () => {
    expect(parseAs(RunSpec, spec, 'SPEC_INVALID', 'run spec').limits.turns).toBe(100);
  });

  test('names the path of a missing field and what it must be', () => {
    const error = refusal(() => parseAs(RunSpec, { ...spec, agent: { name: 'clerk' } }, 'SPEC_INVALID', 'run spec'));
    expect(error.code).toBe('SPEC_INVALID');
    expect(error.message).toBe(
      'The run spec is not valid: agent.model is missing; it must be a string. Correct it and try again.',
    );
    expect(error.facts).toEqual({ path: 'agent.model' });
  });

  test('refuses what holds itself, and takes what stands in two places', () => {
    const decision = { kind: 'approve', decisionId: 'd', callId: 't1.c0', digest: 'a'.repeat(64), runId: 'r' };
    const lines: unknown[] = [{ amount: 1 }];
    const both = { first: lines, second: lines };
    const taken = { ...decision, approver: { id: 'ann' }, arguments: both };
    expect(parseAs(Decision, taken, 'DECISION_INVALID', 'decision')).toMatchObject({ arguments: both });
    lines.push({ order: lines });
    for (const code of ['DECISION_INVALID', 'SPEC_INVALID'] as const) {
      const error = refusal(() => parseAs(Decision, taken, code, 'decision'));
      expect(error.message).toMatch(
        /^The decision is not valid: arguments\.(first|second)\[1\]\.order holds itself, which no JSON can say\. Correct/,
      );
    }
  });

  test('refuses what holds itself before it lists the ways to each field that no JSON has', () => {
    interface Row {
      readonly created: Date;
      links: readonly Row[];
    }
    const rows: Row[] = Array.from({ length: 40 }, () => ({ created: new Date(), links: [] }));
    for (const row of rows) row.links = rows;
    const decision = { kind: 'approve', decisionId: 'd', callId: 't1.c0', digest: 'a'.repeat(64), runId: 'r' };
    const taken = { ...decision, approver: { id: 'ann' }, arguments: { rows } };
    expect(refusal(() => parseAs(Decision, taken, 'DECISION_INVALID', 'decision')).message).toContain('holds itself');
  });

  test('calls what is no number in JSON by its name', () => {
    for (const turns of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const value = { ...spec, limits: { turns } };
      expect(refusal(() => parseAs(RunSpec, value, 'SPEC_INVALID', 'run spec')).message).toContain(
        `limits.turns must be a number, not ${String(turns)}.`,
      );
    }
  });

  test('names an unknown field by its whole path', () => {
    const value = { servers: { notes: { url: 'http://127.0.0.1/mcp', urll: 'x' } } };
    const error = refusal(() => parseAs(Config, value, 'CONFIG_INVALID', 'configuration file countersign.yaml'));
    expect(error.message).toContain(
      'configuration file countersign.yaml is not valid: servers.notes.urll is not a known field',
    );
    expect(error.facts.path).toBe('servers.notes.urll');
  });

  test('writes list positions and odd names so that they can be found', () => {
    const value = { ...spec, servers: [{ name: 'ok' }, { name: 'files', url: 'nonsense' }] };
    expect(refusal(() => parseAs(RunSpec, value, 'SPEC_INVALID', 'run spec')).facts.path).toBe('servers[1].url');
    const odd = { servers: { 'a b': {} } };
    expect(refusal(() => parseAs(Policy, odd, 'SPEC_INVALID', 'policy')).facts.path).toBe('servers["a b"]');
  });

  test('lists the choices where one of several was wanted', () => {
    const wrong = { strategy: 'sometimes' };
    expect(refusal(() => parseAs(Policy, wrong, 'SPEC_INVALID', 'policy')).message).toContain(
      'strategy must be one of "always", "never", "annotations", not this text',
    );
    const kind = { servers: { notes: { url: 'http://127.0.0.1', credentials: { kind: 'magic' } } } };
    expect(refusal(() => parseAs(Config, kind, 'CONFIG_INVALID', 'configuration')).message).toContain(
      'servers.notes.credentials.kind must be one of "none", "given", "client-credentials"',
    );
  });

  test('explains the branch of a union that was meant', () => {
    const tool = { servers: { notes: { tools: { write: { action: 'alow' } } } } };
    expect(refusal(() => parseAs(Policy, tool, 'SPEC_INVALID', 'policy')).message).toContain(
      'servers.notes.tools.write.action must be one of "allow", "ask", "deny"',
    );
    expect(refusal(() => parseAs(RunSpec, { ...spec, input: 7 }, 'SPEC_INVALID', 'run spec')).message).toContain(
      'input must be a string or a list, not a number',
    );
    expect(
      refusal(() => parseAs(RunSpec, { ...spec, input: [{ role: 'tool', content: 'x' }] }, 'SPEC_INVALID', 'run spec'))
        .message,
    ).toContain('input[0].role must be "user"');
  });

  test('says that a value of no JSON kind is not one', () => {
    const decision = { ...spec, agent: { ...spec.agent, output: { a: () => 1 } } };
    expect(refusal(() => parseAs(RunSpec, decision, 'SPEC_INVALID', 'run spec')).facts.path).toBe('agent.output.a');
  });

  test('names the class of what is an object and no JSON', () => {
    const told = (at: unknown): string => refusal(() => parseAs(JsonObject, { at }, 'USAGE', 'argument')).message;
    expect(told(new Date(0))).toContain('or an object, not an instance of Date.');
    expect(told(new Map())).toContain('or an object, not an instance of Map.');
    const text = refusal(() => parseAs(z.string(), { constructor: { name: 'secret' } }, 'USAGE', 'argument')).message;
    expect(text).toContain('must be a string, not an object.');
    const bare: object = Object.create(null);
    const derived: object = Object.create(bare);
    for (const value of [bare, derived])
      expect(refusal(() => parseAs(z.string(), value, 'USAGE', 'argument')).message).toContain('not an object.');
  });

  test('shows the first three problems and counts the rest', () => {
    const error = refusal(() => parseAs(Decision, { kind: 'approve' }, 'DECISION_INVALID', 'decision'));
    expect(error.message).toMatch(/decisionId .*; callId .*; digest .*; and 2 more/);
  });

  test('looks at a hundred problems of a value that has no end of them', () => {
    const wrong = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`f${index}`, 1]));
    expect(refusal(() => parseAs(z.strictObject({}), wrong, 'USAGE', 'argument')).message).toContain('; and 97 more.');
  });

  test('speaks of the whole value where it has no field', () => {
    const error = refusal(() => parseAs(z.string(), 5, 'USAGE', 'argument'));
    expect(error.message).toBe(
      'The argument is not valid: it must be a string, not a number. Correct it and try again.',
    );
    expect(error.facts).toEqual({});
  });

  test('INV-S1: never shows a value of the input, wherever it stands', () => {
    const secret = 'Qz7-canary';
    const places = [
      { ...spec, input: { [`x`]: secret } },
      { ...spec, agent: secret },
      { ...spec, agent: { name: `${secret} !`, model: `!${secret}` } },
      { ...spec, servers: [{ name: 'a', url: `ftp://${secret}` }] },
      { ...spec, grants: [{ server: 'a', authorization: secret }] },
      { ...spec, limits: { turns: secret } },
    ];
    for (const place of places) {
      const error = refusal(() => parseAs(RunSpec, place, 'SPEC_INVALID', 'run spec'));
      expect(`${error.message} ${JSON.stringify(error.facts)} ${String(error.cause)}`).not.toContain(secret);
    }
    forAll(
      fc.object({
        key: fc.constantFrom('agent', 'input', 'limits', 'servers', 'name'),
        values: [fc.constant(secret)],
      }),
      (value) => {
        expect(refusal(() => parseAs(RunSpec, value, 'SPEC_INVALID', 'run spec')).message).not.toContain(secret);
      },
    );
  });

  test('cuts long field names and takes control characters out of them', () => {
    const error = refusal(() => parseAs(Policy, { ['k'.repeat(500)]: 1, 'a\u001b[31m': 2 }, 'SPEC_INVALID', 'policy'));
    expect(error.message).not.toContain('k'.repeat(41));
    expect(error.message).not.toContain('\u001b');
  });
});
