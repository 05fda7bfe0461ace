/** Declares the options that many commands share, and converts their texts to values. */
import { randomUUID } from 'node:crypto';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';

export interface GlobalOptions {
  readonly address?: string;
  readonly namespace?: string;
  readonly profile?: string;
  readonly config?: string;
  readonly json?: true;
  readonly key?: string;
  /** Deadline in seconds. */
  readonly deadline?: number;
}

export function addGlobalOptions(program: Command): void {
  program
    .addOption(
      new Option('--address <host:port>', 'Temporal service; default: TEMPORAL_ADDRESS, the profile, localhost:7233'),
    )
    .addOption(
      new Option('--namespace <name>', 'Temporal namespace; default: TEMPORAL_NAMESPACE, the profile, `default`'),
    )
    .addOption(new Option('--profile <name>', 'profile of temporal.toml'))
    .addOption(new Option('--config <file>', 'configuration; default: COUNTERSIGN_CONFIG, ./countersign.yaml'))
    .addOption(new Option('--key <file>', 'key to sign with (trust mode signed); default: COUNTERSIGN_KEY'))
    .addOption(new Option('--json', 'one JSON document on standard output, and nothing else'))
    .addOption(new Option('--deadline <seconds>', 'how long to wait for an answer (default: 10)').argParser(seconds));
}

export function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value <= 0)
    throw new InvalidArgumentError('It must be a number of seconds above 0.');
  return value;
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

export function port(text: string): number {
  const value = wholeNumber(text);
  if (value > 65_535) throw new InvalidArgumentError('It must be a port: 0 (any that is free) to 65535.');
  return value;
}

/**
 * Parses an instant. The text must name a time zone, since the run may be read on the other side of the world.
 * @returns UTC with milliseconds
 */
export function time(text: string): string {
  const ms = /^[0-9-]{10}T[0-9:.]{5,12}(?:Z|[+-][0-9]{2}:[0-9]{2})$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw new InvalidArgumentError('It must look like 2026-02-01T09:00Z or 2026-02-01T10:00+01:00.');
  return new Date(ms).toISOString();
}

/** Collects an option that may be given several times. */
export function repeated(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** Collects `name=value` pairs; the option may be given several times. */
export function pairs(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1 || at === text.length - 1) throw new InvalidArgumentError('It must look like name=value.');
  const name = text.slice(0, at);
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError(`${name} is given twice.`);
  return { ...before, [name]: text.slice(at + 1) };
}

// The commands of `countersign catalog` share the following options.

export interface CatalogOptions extends GlobalOptions {
  readonly tenant: string;
}

export interface Acting {
  readonly as: string;
  readonly group?: readonly string[];
  readonly requestId?: string;
  readonly expectedVersion?: number;
}

export type ActingOptions = CatalogOptions & Acting;

export function addTenant(command: Command): Command {
  return command.option('--tenant <name>', 'whose catalog', 'default');
}

/** Adds the options of every command that changes something. */
export function addActor(command: Command, { versioned = true }: { readonly versioned?: boolean } = {}): Command {
  return addIds(command.requiredOption('--as <id>', 'who asks for it'), versioned);
}

/** @param versioned true if the message names the version that was shown */
export function addIds(command: Command, versioned: boolean): Command {
  const grouped = command
    .option('--group <name>', 'a group that they belong to; may be given several times', repeated)
    .option('--request-id <id>', 'the id of a message whose answer got lost: sent again, it counts once');
  return versioned
    ? grouped.option(
        '--expected-version <n>',
        'change only this version of the catalog (default: the one read now)',
        wholeNumber,
      )
    : grouped;
}

interface MessageIds {
  readonly requestId: string;
  readonly by: { readonly id: string; readonly groups: string[] };
}

/**
 * Sends a message under an id. If the answer gets lost, the error names that id.
 * @param version the version that the message changes, if it names one
 */
export async function sendAs<T>(
  { as, group = [], requestId = randomUUID() }: Acting,
  version: number | undefined,
  send: (ids: MessageIds) => Promise<T>,
): Promise<T> {
  try {
    return await send({ requestId, by: { id: as, groups: [...group] } });
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const same = version === undefined ? '' : ` --expected-version ${version}`;
    const message = `${error.message} Here: add --request-id ${requestId}${same}`;
    throw new CountersignError(error.code, message, { ...error.facts, requestId }, { cause: error });
  }
}

/** Parses the first characters of a definition's hash: at least 8, so that no other hash matches by chance. */
export function hashPrefix(text: string, before: readonly string[] = []): string[] {
  if (!/^[0-9a-f]{8,64}$/.test(text))
    throw new InvalidArgumentError('It must be 8 to 64 characters of a definition hash.');
  return [...before, text];
}

/** Formats the examples at the end of a command's help. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ countersign ${line}`).join('\n')}`;
}
