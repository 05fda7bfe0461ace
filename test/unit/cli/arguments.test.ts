/** What the command line takes and refuses, before it speaks to anybody. */
import { expect, test } from '@jest/globals';
import { createProgram } from '../../../cli/program.ts';
import { plain } from '../../../cli/terminal.ts';
import { errorOf, runCommand } from '../../support/cli.ts';

const program = createProgram(
  {
    env: {},
    directory: '/',
    paint: plain,
    out: () => undefined,
    err: () => undefined,
    input: async () => '',
    interrupted: () => new AbortController().signal,
  },
  false,
);
const VERBS = program.commands.map((command) => command.name());

test('the verbs are these', () => {
  expect(VERBS.join(' ')).toBe(
    'dev setup worker start requests show approve reject stop watch result ledger verify-ledger keys replay',
  );
});

test.each(VERBS)('%s --help says what it does and shows examples and the options of every command', async (verb) => {
  const { exitCode, out, err } = await runCommand([verb, '--help']);
  expect(exitCode).toBe(0);
  expect(err).toBe('');
  expect(out).toMatch(new RegExp(`Usage: countersign ${verb} .*\n\n[A-Z].+`));
  expect(out).toMatch(new RegExp(`Examples:\n  \\$ countersign ${verb}`));
  for (const option of ['--address', '--namespace', '--profile', '--config', '--json', '--deadline'])
    expect(out).toContain(option);
});

test('an example of the help is a command line that is understood', () => {
  for (const command of program.commands) {
    let help = '';
    command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
    const examples = [...help.matchAll(/\$ countersign (.*)/g)].map(([, line = '']) => line.replace(/ [<>] .*$/, ''));
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) {
      const [verb, ...args] = example.match(/"[^"]*"|\S+/g)?.map((word) => word.replaceAll('"', '')) ?? [];
      expect(verb).toBe(command.name());
      const { unknown } = program.parseOptions(command.parseOptions(args).unknown);
      expect(unknown.filter((word) => word.startsWith('-') && word !== '-')).toEqual([]);
    }
  }
});

test('without a verb the help goes to standard error, and the exit code is that of a usage error', async () => {
  const { exitCode, out, err } = await runCommand([]);
  expect(exitCode).toBe(2);
  expect(out).toBe('');
  expect(err).toContain('Usage: countersign');
  expect(err).toContain('error USAGE: ');
});

test.each([
  ['an unknown verb, with the one that was meant', ['aprove'], 'approve'],
  ['an unknown option', ['show', 'run-1', '--fast'], '--fast'],
  ['a missing argument', ['approve', 'run-1', '--as', 'ann'], "'call'"],
  ['a missing option', ['approve', 'run-1', 't1.c0'], '--as'],
  ['a rejection without a reason', ['reject', 'run-1', 't1.c0', '--as', 'ann'], '--reason'],
  ['one argument too many', ['show', 'run-1', 'run-2'], 'Too many'],
  ['a deadline that is no number', ['show', 'run-1', '--deadline', 'soon'], '--deadline'],
  ['a deadline of nothing', ['show', 'run-1', '--deadline', '0'], '--deadline'],
  ['a port that is none', ['dev', '--port', '70000'], '--port'],
  ['a role that is none', ['worker', '--role', 'most'], 'all, runs, tools'],
  ['a pair without a value', ['start', 'spec.json', '--authorization', 'tickets'], 'name=value'],
  ['the same pair twice', ['start', 'spec.json', '--sealing-key', 'a=1', '--sealing-key', 'a=2'], 'twice'],
  ['paths and a live namespace at once', ['replay', 'x.json', '--live'], '--live'],
  ['a query without a live namespace', ['replay', '--query', 'a = 1'], '--live'],
])('%s is a usage error: code, reason, exit code 2', async (_what, args, named) => {
  const human = await runCommand(args);
  expect(human.exitCode).toBe(2);
  expect(human.err).toMatch(/^error USAGE: /);
  expect(human.err).toContain(named);
  const machine = await runCommand([...args, '--json']);
  expect(machine.exitCode).toBe(2);
  expect(errorOf(machine)).toMatchObject({ code: 'USAGE', message: expect.stringContaining(named) });
});

test('nobody at the address: code, exit code 6, and what to do', async () => {
  const result = await runCommand(['show', 'run-1', '--address', '127.0.0.1:1', '--deadline', '1', '--json']);
  expect(result.exitCode).toBe(6);
  expect(errorOf(result)).toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    message: expect.stringContaining('127.0.0.1:1'),
  });
});

test('a profile that is not there is named', async () => {
  const result = await runCommand(['show', 'run-1', '--profile', 'elsewhere', '--json']);
  expect(result.exitCode).toBe(2);
  expect(errorOf(result)).toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining('elsewhere') });
});
