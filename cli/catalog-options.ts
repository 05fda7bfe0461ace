/** What the commands of `countersign catalog` take alike. */
import { randomUUID } from 'node:crypto';
import { type Command, InvalidArgumentError } from 'commander';
import { CountersignError } from '../contracts/errors.ts';
import { type GlobalOptions, repeated, wholeNumber } from './options.ts';

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

/** Of every command that changes something. */
export function addActor(command: Command, { versioned = true }: { readonly versioned?: boolean } = {}): Command {
  return addIds(command.requiredOption('--as <id>', 'who asks for it'), versioned);
}

/** @param versioned does the message name the version that was shown? */
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
 * Sends a message under an id that is told where its answer got lost.
 * @param version what the message names as the version it changes, if it does
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

/** The beginning of a definition's hash, long enough that no other one has it by chance. */
export function hashPrefix(text: string, before: readonly string[] = []): string[] {
  if (!/^[0-9a-f]{8,64}$/.test(text))
    throw new InvalidArgumentError('It must be 8 to 64 characters of a definition hash.');
  return [...before, text];
}
