/**
 * Reports the error that ends a command: one line on standard error, and the exit code of the error table.
 */
import { CommanderError } from 'commander';
import { troubleOf } from '../../client/engine/engine.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { visible } from '../../domain/text/escape.ts';
import { safeJson } from './answered.ts';
import type { Terminal } from './terminal.ts';

/** @returns the exit code */
export function reportFailure(terminal: Terminal, thrown: unknown, asJson: boolean): number {
  // Commander has already printed the text of `--help` or `--version`.
  if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
  const { code, message, facts, traits } = errorOf(thrown);
  if (asJson) terminal.err(`${safeJson({ error: { code, message, facts } })}\n`);
  else terminal.err(`${terminal.paint('red', `error ${code}`)}: ${lines(message)}\n`);
  return traits.exitCode;
}

function errorOf(thrown: unknown): CountersignError {
  if (thrown instanceof CommanderError) return usageError(thrown);
  return troubleOf(thrown, '');
}

/** Keeps commander's own words, without its prefix. */
function usageError({ code, message }: CommanderError): CountersignError {
  if (code === 'commander.help') return new CountersignError('USAGE', 'A command is missing. See: countersign --help');
  const text = message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
  const sentence = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return new CountersignError('USAGE', `${sentence}${/[.?)]$/.test(sentence) ? '' : '.'} See --help.`);
}

/** Keeps the line breaks of our own messages; every other invisible character becomes visible. */
function lines(message: string): string {
  return message.split('\n').map(visible).join('\n');
}
