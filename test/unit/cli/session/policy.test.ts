/** `countersign policy`: check, explain, test; and the table of cases that is documentation (S2.1, S4.1, INV-G4). */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { runCases } from '../../../../cli/session/policy-cases.ts';
import { PolicyCases } from '../../../../contracts/schemas/policy-cases.ts';
import { documentOf, errorOf, runCommand } from '../../../support/cli.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { withCode } from '../../../support/refusal.ts';

const TABLE = new URL('../../../../docs/guide/policy-cases.yaml', import.meta.url);
const table = PolicyCases.parse(parse(await readFile(TABLE, 'utf8')));
const results = await runCases(table, { policy: {}, trusted: {} });

test('the table has at least 120 cases, each with a name of its own in its group', () => {
  expect(results.length).toBeGreaterThanOrEqual(120);
  expect(new Set(results.map(({ group, name }) => `${group}: ${name}`)).size).toBe(results.length);
});

test.each(results)('$group: $name', ({ differences }) => {
  expect(differences).toEqual([]);
});

const { folder } = useConfigFolders();
const CONFIG = `
servers: { bank: { url: 'https://bank.example.com/mcp', trusted: true, credentials: { kind: none } } }
policy:
  strategy: annotations
  servers: { bank: { tools: { pay: { action: ask, approvers: { ids: [eve, zoe], need: 2 } }, wipe: deny } } }
`;
const CASES = `
groups:
  - { name: ours, cases: [{ name: paying, call: bank/pay, expect: ask, approvers: 2 of eve or zoe }] }
`;

async function policy(line: string, files: Readonly<Record<string, string>> = {}) {
  const directory = await folder({ 'countersign.yaml': CONFIG, 'cases.yaml': CASES, ...files });
  return await runCommand(['policy', ...line.split(' ')], { directory });
}

describe('explain', () => {
  test('says what happens to a call, which rules decide, who decides and until when', async () => {
    const asked = await policy('explain bank pay');
    expect(asked).toMatchObject({ exitCode: 0, err: '' });
    expect(asked.out).toMatch(
      /^ask {2}bank\/pay\n.*organisation\/servers\/bank\/tools\/pay\n.*2 people: eve or zoe\n.*1 d/s,
    );
    expect((await policy('explain bank wipe')).out).toMatch(/^deny {2}bank\/wipe\n.*POLICY_DENIED/s);
    expect(documentOf(await policy('explain bank look --read-only --json'))).toMatchObject({
      verdict: { kind: 'allow', rules: ['organisation/strategy/annotations/read-only'] },
    });
    expect((await policy('explain bank look --initiator ben')).out).toContain('ben');
  });

  test('takes a group at a time, and nothing that stands after it', async () => {
    const config = {
      'countersign.yaml': `policy: { rules: [{ id: ours, when: '"a" in initiator.groups && "b" in initiator.groups', then: allow }] }`,
    };
    expect((await policy('explain --group a --group b bank look', config)).out).toMatch(/^allow/);
    expect((await policy('explain --group a bank look', config)).out).toMatch(/^ask/);
  });

  test("takes a run's own policy into account", async () => {
    const run = { 'run.yaml': 'policy: { servers: { bank: { default: deny } } }' };
    expect((await policy('explain bank look --read-only --spec run.yaml', run)).out).toMatch(/^deny/);
    const wrong = { 'run.yaml': 'policy: { strategie: never }' };
    expect(errorOf(await policy('explain bank look --spec run.yaml --json', wrong))).toMatchObject({ code: 'USAGE' });
  });
});

describe('explain, of rules', () => {
  const RULES = {
    'countersign.yaml': `
servers: { bank: { url: 'https://bank.example.com/mcp', credentials: { kind: none } } }
policy:
  strategy: never
  rules:
    - { id: big, match: { server: bank, tool: pay }, when: args.amount > 100, then: deny, explain: Too much. }
    - { id: hints, match: { annotations: { destructiveHint: false } }, then: allow }
    - { id: third, when: 'earlier["bank/pay"].total > 1', then: ask }
    - { id: ops, when: '"ops" in initiator.groups && initiator.tenant == "acme" && run.turn > 2', then: deny }
`,
  };

  test('says of each layer which rule decides, and what became of its condition', async () => {
    const line = 'explain bank pay --args {"amount":5} --earlier {"bank/pay":{"succeeded":2}} --spec run.yaml';
    const run = { 'run.yaml': "policy: { rules: [{ id: no, when: 'args.to == 1', then: deny }] }" };
    const { out } = await policy(line, { ...RULES, ...run });
    expect(out).toMatch(/^deny {2}bank\/pay\n.*run\/rules\/no \(condition failed\)/s);
    expect(out).toMatch(/organisation +rules\/big: the condition is false.*, passed over {2}when args.amount > 100/);
    expect(out).toContain('rules/hints: its hints are not to be trusted, passed over');
    expect(out).toContain('rules/third: the condition is true, ask');
    expect(out).toMatch(/run +rules\/no: the condition failed, deny/);
  });

  test('takes arguments, groups, tenant and turn', async () => {
    expect((await policy('explain bank pay --args {"amount":500}', RULES)).out).toMatch(
      /^deny.*organisation\/rules\/big/s,
    );
    const who = 'explain bank look --tenant acme --turn 3 --group ops';
    expect((await policy(who, RULES)).out).toMatch(/^deny.*organisation\/rules\/ops/s);
    expect(documentOf(await policy('explain bank pay --args {"amount":5} --json', RULES))).toMatchObject({
      verdict: { kind: 'allow' },
      layers: [
        { layer: 'organisation', considered: expect.arrayContaining([expect.objectContaining({ decides: true })]) },
      ],
    });
  });

  test.each([
    ['arguments that are no JSON', 'explain bank pay --args {amount', '--args is not JSON'],
    ['arguments that are no object', 'explain bank pay --args [1]', 'args'],
    ['a turn that is no number', 'explain bank pay --turn soon', 'turn'],
  ])('%s are refused', async (_, line, reason) => {
    expect(errorOf(await policy(`${line} --json`, RULES))).toMatchObject(withCode('USAGE', reason));
  });
});

describe('check', () => {
  test('names each condition that cannot be evaluated, with its path', async () => {
    const rules = ['user == "x"', 'true', 'args.x ==']
      .map((when, index) => `{ id: r${index}, when: '${when}', then: deny }`)
      .join(', ');
    const wrong = errorOf(await policy('check wrong.yaml --json', { 'wrong.yaml': `policy: { rules: [${rules}] }` }));
    expect(wrong).toMatchObject(withCode('CONFIG_INVALID', 'policy.rules[2].when'));
    expect(wrong).toMatchObject({
      message: expect.stringContaining('policy.rules[0].when cannot be read: Unknown variable'),
    });
  });

  test('says which rule never matches', async () => {
    const shadowed = { 'odd.yaml': 'policy: { rules: [{ id: a, then: ask }, { id: b, then: deny }] }' };
    expect((await policy('check odd.yaml', shadowed)).out).toContain('policy.rules[1] never matches: policy.rules[0]');
  });

  test.each(['check wrong.yaml', 'explain bank pay --config wrong.yaml', 'test cases.yaml --config wrong.yaml'])(
    'a mistyped section is refused, as workers refuse it, and no policy without a rule: %s',
    async (line) => {
      const wrong = 'polcy: { halt: { reason: "${NOT_SET}" } }\nservers: {}\n';
      expect(errorOf(await policy(`${line} --json`, { 'wrong.yaml': wrong }))).toMatchObject({
        code: 'CONFIG_INVALID',
        message:
          'The configuration file wrong.yaml is not valid: polcy is not a known field. Correct it and try again.',
      });
    },
  );

  test('a policy that is meant so is valid', async () => {
    expect(documentOf(await policy('check --strict --json'))).toEqual({ valid: true, warnings: [] });
  });

  test('says what can never be met or never applies; with --strict that fails', async () => {
    const odd = {
      'odd.yaml':
        'policy: { servers: { bank: { tools: { pay: { action: ask, approvers: { ids: [eve], need: 2 } } } } } }',
    };
    const result = await policy('check odd.yaml', odd);
    expect(result).toMatchObject({ exitCode: 0 });
    expect(result.out).toContain('policy.servers.bank applies only where a run or a catalog has a server of that name');
    expect(result.out).toContain('needs 2 people and names 1');
    expect(await policy('check odd.yaml --strict', odd)).toMatchObject({ exitCode: 7 });
  });

  test.each([
    ['of all requests', 'notify: [{ channel: pager }]', 'policy.notify[0].channel'],
    ['of a rule', 'rules: [{ id: a, then: ask, notify: [{ channel: pager }] }]', 'policy.rules[0].notify[0].channel'],
  ])(
    'INV-G4: a channel %s that there is not is an error: workers would keep the policy of before',
    async (_, named, path) => {
      const halted = `policy: { halt: { reason: Now. }, ${named} }`;
      const refused = await policy('check halted.yaml --json', { 'halted.yaml': halted });
      expect(refused.exitCode).toBe(2);
      expect(errorOf(refused)).toMatchObject({
        code: 'CONFIG_INVALID',
        message: expect.stringContaining(`${path} names no channel of notify.channels: pager`),
        facts: { path },
      });
      const channels = 'notify: { channels: { pager: { kind: slack-webhook, webhookUrl: "${NOT_SET_HERE}" } } }';
      expect(await policy('check halted.yaml', { 'halted.yaml': `${channels}\n${halted}` })).toMatchObject({
        exitCode: 0,
      });
    },
  );

  test('says which server of a halt is not configured; with --strict that fails', async () => {
    const halted = { 'halted.yaml': CONFIG.replace('policy:', 'policy:\n  halt: { reason: Now., servers: [bnak] }') };
    const { exitCode, out } = await policy('check halted.yaml --strict', halted);
    expect(exitCode).toBe(7);
    expect(out).toMatch(/policy\.halt\.servers\[0\] halts bnak only where.*Did you mean bank\?/);
  });

  test('an error names path and reason', async () => {
    const wrong = await policy('check wrong.yaml --json', { 'wrong.yaml': 'policy: { strategy: sometimes }' });
    expect(wrong.exitCode).toBe(2);
    expect(errorOf(wrong)).toMatchObject(withCode('CONFIG_INVALID', 'policy.strategy'));
  });
});

describe('test', () => {
  test('a table that says what the policy does holds', async () => {
    expect(await policy('test cases.yaml')).toMatchObject({ exitCode: 0, out: '1 of 1 cases hold.\n' });
  });

  test('one that does not fails, with what is otherwise and which rules decided', async () => {
    const wrong = { 'cases.yaml': CASES.replace('expect: ask', 'expect: allow') };
    const result = await policy('test cases.yaml', wrong);
    expect(result.exitCode).toBe(7);
    expect(result.out).toMatch(
      /FAILED {2}ours: paying\n +verdict: ask, not allow \(organisation\/servers\/bank\/tools\/pay\)/,
    );
    expect(result.err).toContain('POLICY_CASES_FAILED');
  });

  test.each([
    ['a field that there is not', CASES.replace('expect', 'expects'), 'groups[0].cases[0]'],
    ['a call without a server', CASES.replace('bank/pay', 'pay'), 'must look like server/tool'],
    ['no case', 'groups: []', 'groups'],
    [
      'a condition that nobody can evaluate',
      CASES.replace('name: ours,', "name: ours, policy: { rules: [{ id: a, when: 'x', then: ask }] },"),
      'groups[0].policy.rules[0].when',
    ],
  ])('%s is refused, with its path', async (_, text, reason) => {
    const result = await policy('test cases.yaml --json', { 'cases.yaml': text });
    expect(result.exitCode).toBe(2);
    expect(errorOf(result)).toMatchObject(withCode('USAGE', reason));
  });
});
