/** What the command line takes and refuses, before it speaks to anybody. */
import { expect, test } from '@jest/globals';
import type { Command } from 'commander';
import { errorOf, quietProgram, runCommand } from '../../support/cli.ts';
import { withCode } from '../../support/refusal.ts';

const program = await quietProgram();
const VERBS = program.commands.map((command) => command.name());
/** Those of `countersign catalog` too. */
const LINES = program.commands.flatMap((command) => [
  command.name(),
  ...command.commands.map((inner) => `${command.name()} ${inner.name()}`),
]);

test('the verbs are these', () => {
  expect(VERBS.join(' ')).toBe(
    'dev setup worker gateway codec-server catalog policy start gate call requests show approve reject respond resolve answer authorize withdraw forget extend say stop watch result ledger verify-ledger artifacts vault keys replay deploy recover',
  );
  expect(LINES.filter((line) => line.startsWith('catalog ')).join(', ')).toBe(
    'catalog connect, catalog list, catalog show, catalog refresh, catalog diff, catalog allow, catalog ask, catalog deny, catalog enable, catalog disable, catalog approve, catalog reject, catalog export, catalog import, catalog disconnect',
  );
});

test.each(LINES)('%s --help says what it does and shows examples and the options of every command', async (verb) => {
  const { exitCode, out, err } = await runCommand([...verb.split(' '), '--help']);
  expect(exitCode).toBe(0);
  expect(err).toBe('');
  expect(out).toMatch(new RegExp(`Usage: countersign ${verb} .*\n\n[A-Z].+`));
  expect(out).toMatch(new RegExp(`Examples:\n  \\$ countersign ${verb}`));
  for (const option of ['--address', '--namespace', '--profile', '--config', '--json', '--deadline'])
    expect(out).toContain(option);
});

test.each(LINES)('an example of the help of %s is a command line that is understood', (line) => {
  const command = commandOf(line);
  let help = '';
  command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
  const examples = [...help.matchAll(/\$ countersign (.*)/g)].map(([, example = '']) =>
    example.replace(/ [<>] .*$/, ''),
  );
  expect(examples.length).toBeGreaterThan(0);
  for (const example of examples) {
    expect(`${example} `).toContain(`${line} `);
    // A cut text is refused.
    expect(example).not.toContain('…');
    const words = example.match(/"[^"]*"|\S+/g)?.map((word) => word.replaceAll('"', '')) ?? [];
    const own = LINES.findLast((each) => `${example} `.startsWith(`${each} `)) ?? '';
    const args = words.slice(own.split(' ').length);
    const { unknown } = program.parseOptions(commandOf(own).parseOptions(args).unknown);
    expect(unknown.filter((word) => word.startsWith('-') && word !== '-')).toEqual([]);
  }
});

function commandOf(line: string): Command {
  return line.split(' ').reduce((command: Command, name) => {
    const found = command.commands.find((inner) => inner.name() === name);
    if (found === undefined) throw new Error(`no command ${line}`);
    return found;
  }, program);
}

test.each([
  ['', []],
  [' catalog', ['catalog']],
])('countersign%s without a verb: help on standard error, and the exit code of a usage error', async (name, args) => {
  const { exitCode, out, err } = await runCommand(args);
  expect(exitCode).toBe(2);
  expect(out).toBe('');
  expect(err).toContain(`Usage: countersign${name}`);
  expect(err).toContain('error USAGE: ');
});

test.each([
  ['an unknown verb, with the one that was meant', ['aprove'], 'approve'],
  ['an unknown option', ['show', 'run-1', '--fast'], '--fast'],
  ['a missing argument', ['withdraw', 'run-1', '--as', 'ann'], "'call'"],
  ['a missing option', ['approve', 'run-1', 't1.c0'], '--as'],
  ['a rejection without a reason', ['reject', 'run-1', 't1.c0', '--as', 'ann'], '--reason'],
  ['a time without a zone', ['extend', 'r', 't1.c0', '--as', 'ann', '--until', '2026-02-01T09:00'], '--until'],
  ['a time that is none', ['extend', 'r', 't1.c0', '--as', 'ann', '--until', '2026-02-31T29:00Z'], '--until'],
  ['one argument too many', ['show', 'run-1', 'run-2'], 'Too many'],
  ['a deadline that is no number', ['show', 'run-1', '--deadline', 'soon'], '--deadline'],
  ['a deadline of nothing', ['show', 'run-1', '--deadline', '0'], '--deadline'],
  ['a port that is none', ['dev', '--port', '70000'], '--port'],
  ['a role that is none', ['worker', '--role', 'most'], 'all, runs, tools'],
  ['a server that is none', ['gate', '--as', 'ann', '--server', 'a b'], 'name of the server'],
  ['a longer hold than there is', ['gate', '--as', 'ann', '--hold', '3601'], '--hold'],
  ['a pair without a value', ['start', 'spec.json', '--authorization', 'tickets'], 'name=value'],
  ['the same pair twice', ['start', 'spec.json', '--sealing-key', 'a=1', '--sealing-key', 'a=2'], 'twice'],
  ['a change of a catalog by nobody', ['catalog', 'deny', 'files', 'pay'], '--as'],
  ['an unknown verb of a catalog, with the one that was meant', ['catalog', 'alow', 'files'], 'allow'],
  ['all tools, where that lets more pass', ['catalog', 'allow', 'files', '--all', '--as', 'ann'], '--all'],
  ['all tools, where that gives them back', ['catalog', 'enable', 'files', '--all', '--as', 'ann'], '--all'],
  ['too little of a hash', ['catalog', 'allow', 'files', 'pay', '--as', 'ann', '--hash', '0123abc'], '8 to 64'],
  ['paths and a live namespace at once', ['replay', 'x.json', '--live'], '--live'],
  ['a query without a live namespace', ['replay', '--query', 'a = 1'], '--live'],
])('%s is a usage error: code, reason, exit code 2', async (_what, args, named) => {
  const human = await runCommand(args);
  expect(human.exitCode).toBe(2);
  expect(human.err).toMatch(/^error USAGE: /);
  expect(human.err).toContain(named);
  const machine = await runCommand([...args, '--json']);
  expect(machine.exitCode).toBe(2);
  expect(errorOf(machine)).toMatchObject(withCode('USAGE', named));
});

test('nobody at the address: code, exit code 6, and what to do', async () => {
  const result = await runCommand(['show', 'run-1', '--address', '127.0.0.1:1', '--deadline', '1', '--json']);
  expect(result.exitCode).toBe(6);
  expect(errorOf(result)).toMatchObject(withCode('ENGINE_UNAVAILABLE', '127.0.0.1:1'));
});

test('a profile that is not there is named', async () => {
  const result = await runCommand(['show', 'run-1', '--profile', 'elsewhere', '--json']);
  expect(result.exitCode).toBe(2);
  expect(errorOf(result)).toMatchObject(withCode('CONFIG_INVALID', 'elsewhere'));
});
