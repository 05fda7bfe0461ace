/**
 * Runs a verb from its row in a table. The row says what the verb takes, what its help says and what it does.
 * Everything else every verb does alike: help, session, output, errors and exit code.
 *
 * 1. With --json, standard output holds only JSON: one document, or one per line for events over time.
 * 2. Nothing from a model, tool or server reaches a terminal that hides, moves or covers its neighbours, in either
 *    form: no control, bidirectional or zero-width character, no right-to-left letter, no combining mark. Answers of
 *    runs keep their script; they stand alone in their lines.
 */
import { once } from 'node:events';
import { type Command, CommanderError } from 'commander';
import { troubleOf } from '../../client/engine/trouble.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { unhidden, visible } from '../../domain/text/escape.ts';
import type { ArgumentRows, GlobalOptions, OptionRows, Values } from './options.ts';
import { type Session, withSession } from './session.ts';
import type { Paint, Terminal } from './terminal.ts';

export interface Answer {
  readonly json: unknown;
  /** Text for people. Its author has made foreign text visible (`domain/text/escape.ts`). */
  readonly text: (paint: Paint) => string;
  /** Ends the command once the answer is printed. */
  readonly fault?: CountersignError | undefined;
}

export interface Given<Args, Options> {
  readonly args: Values<Args>;
  readonly options: Values<Options> & GlobalOptions;
  readonly terminal: Terminal;
  readonly session: <T>(use: (session: Session) => Promise<T>) => Promise<T>;
}

interface VerbRow<Args, Options> {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly args?: Args;
  readonly options?: Options;
  readonly examples: readonly string[];
  readonly note?: string;
  readonly verbs?: readonly Verb[];
  /** Absent if the verb is only a name for its `verbs`. Returns nothing if it has written its answer by itself. */
  readonly run?: (given: Given<Args, Options>) => Promise<Answer | undefined>;
}

export type Verb = (parent: Command, terminal: Terminal) => void;

type None = Readonly<Record<never, never>>;

export function verb<Args extends ArgumentRows = None, Options extends OptionRows = None>(
  row: VerbRow<Args, Options>,
): Verb {
  return (parent, terminal) => {
    const { note, run } = row;
    const args: ArgumentRows = row.args ?? {};
    const options: OptionRows = row.options ?? {};
    const command = parent.command(row.name).summary(row.summary).description(row.description);
    for (const [name, argument] of Object.entries(args)) command.addArgument(argument(name));
    for (const [name, option] of Object.entries(options)) command.addOption(option(name));
    const lines = row.examples.map((line) => `  $ countersign ${line}`).join('\n');
    command.addHelpText('after', `\nExamples:\n${lines}${note === undefined ? '' : `\n\n${note}`}`);
    for (const add of row.verbs ?? []) add(command, terminal);
    if (run !== undefined)
      command.action(async () => {
        const given = givenTo<Args, Options>(command, Object.keys(args), terminal);
        const answer = await run(given);
        if (answer === undefined) return;
        print(terminal, answer, given.options.json === true);
        if (answer.fault !== undefined) throw answer.fault;
      });
  };
}

function givenTo<Args, Options>(command: Command, names: readonly string[], terminal: Terminal): Given<Args, Options> {
  const values: readonly unknown[] = command.processedArgs;
  // Sound, here and below: the rows from which commander reads say which values they give.
  const args = Object.fromEntries(names.map((name, index) => [name, values[index]])) as Values<Args>;
  const options = command.optsWithGlobals<Values<Options> & GlobalOptions>();
  return { args, options, terminal, session: async (use) => await withSession(terminal, options, use) };
}

export function print(terminal: Terminal, answer: Answer, asJson: boolean): void {
  terminal.out(`${asJson ? safeJson(answer.json) : answer.text(terminal.paint)}\n`);
}

export async function ended(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/** Escapes as JSON does what a terminal would hide, move or join, so that a parser gets exactly the same text. */
export function safeJson(value: unknown): string {
  // In compact JSON, such characters occur only inside strings.
  return escapedWhere(JSON.stringify(value), (char) => visible(char) !== char);
}

/** Escapes a text whose invisible characters stand only in quoted strings; line breaks and letters stay. */
export function escapedInvisible(text: string): string {
  return escapedWhere(text, (char) => unhidden(char) !== char);
}

function escapedWhere(text: string, isActive: (char: string) => boolean): string {
  return text.replaceAll(/[^\n\x20-\x7e]/gu, (char) => (isActive(char) ? escaped(char) : char));
}

function escaped(char: string): string {
  const codes = Array.from({ length: char.length }, (_, index) => char.charCodeAt(index));
  return codes.map((code) => `\\u${code.toString(16).padStart(4, '0')}`).join('');
}

/** @returns the exit code of the error table */
export function reportFailure(terminal: Terminal, thrown: unknown, asJson: boolean): number {
  // Commander has already printed the text of `--help` or `--version`.
  if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
  const { code, message, facts, traits } =
    thrown instanceof CommanderError ? usageError(thrown) : troubleOf(thrown, '');
  if (asJson) terminal.err(`${safeJson({ error: { code, message, facts } })}\n`);
  else {
    // All but line breaks is made visible. Lines after one are indented: none of somebody else's words looks like ours.
    const shown = message.split('\n').map(visible).join('\n  ');
    terminal.err(`${terminal.paint('red', `error ${code}`)}: ${shown}\n`);
  }
  return traits.exitCode;
}

function usageError({ code, message }: CommanderError): CountersignError {
  if (code === 'commander.help') return new CountersignError('USAGE', 'A command is missing. See: countersign --help');
  const text = message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  const sentence = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return new CountersignError('USAGE', `${sentence}${/[.?)]$/.test(sentence) ? '' : '.'} See --help.`);
}
