/**
 * Says what an option or argument of a verb is: its help, its text's meaning, and the type of value that the verb gets.
 * Holds the options that every verb has.
 */
import { Argument, InvalidArgumentError, Option } from 'commander';
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';

/** An option, made for a name. `T` is the value that the verb gets. */
export type OptionRow<T> = ((name: string) => Option) & { readonly value?: T };
export type OptionRows = Readonly<Record<string, OptionRow<unknown>>>;

type ArgumentRow<T> = ((name: string) => Argument) & { readonly value?: T };
export type ArgumentRows = Readonly<Record<string, ArgumentRow<unknown>>>;

type ValueOf<Row> = Row extends { readonly value?: infer T } ? T : never;

/** The values of a table of rows; those that may be missing are optional fields. */
export type Values<Rows> = {
  readonly [Name in keyof Rows as undefined extends ValueOf<Rows[Name]> ? never : Name]: ValueOf<Rows[Name]>;
} & {
  readonly [Name in keyof Rows as undefined extends ValueOf<Rows[Name]> ? Name : never]?: Exclude<
    ValueOf<Rows[Name]>,
    undefined
  >;
};

const argument =
  <T>(opening: string, closing: string) =>
  (help?: string): ArgumentRow<T> =>
  (name) =>
    new Argument(`${opening}${name}${closing}`, help);

export const one = argument<string>('<', '>');
export const maybe = argument<string | undefined>('[', ']');
export const some = argument<readonly string[]>('<', '...>');
export const any = argument<readonly string[]>('[', '...]');

export const flag =
  (help: string): OptionRow<true | undefined> =>
  (name) =>
    new Option(`--${dashed(name)}`, help);

/** True unless `--no-NAME` is given. */
export const off =
  (help: string): OptionRow<boolean> =>
  (name) =>
    new Option(`--no-${dashed(name)}`, help);

/** @param placeholder the value in the help, such as `<file>` */
export const text =
  (placeholder: string, help: string): OptionRow<string | undefined> =>
  (name) =>
    new Option(`--${dashed(name)} ${placeholder}`, help);

export const parsed =
  <T>(parse: (given: string, before?: T) => T, placeholder: string, help: string): OptionRow<T | undefined> =>
  (name) =>
    text(placeholder, help)(name).argParser(parse);

export const repeated = (placeholder: string, help: string): OptionRow<readonly string[] | undefined> =>
  parsed((given, before = []) => [...before, given], placeholder, help);

export const several = (placeholder: string, help: string): OptionRow<readonly string[] | undefined> =>
  repeated(placeholder, `${help}; may be given several times`);

export const choice =
  <T extends string>(choices: readonly T[], placeholder: string, help: string): OptionRow<T | undefined> =>
  (name) =>
    text(placeholder, help)(name).choices(choices);

export const needed =
  <T>(row: OptionRow<T | undefined>): OptionRow<T> =>
  (name) =>
    row(name).makeOptionMandatory();

export const preset =
  <T>(value: T, row: OptionRow<T | undefined>): OptionRow<T> =>
  (name) =>
    row(name).default(value);

export function usage(message: string, facts?: ErrorFacts, options?: ErrorOptions): CountersignError {
  return new CountersignError('USAGE', message, facts, options);
}

function dashed(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Some thirty years; gRPC cannot write a deadline that is much later. */
const MOST_SECONDS = 999_999_999;

export function asSeconds(given: string): number {
  const value = Number(given);
  if (given.trim() !== '' && value > 0 && value <= MOST_SECONDS) return value;
  throw new InvalidArgumentError(`It must be a number of seconds above 0, and at most ${MOST_SECONDS}.`);
}
export const seconds = (help: string) => parsed(asSeconds, '<seconds>', help);

function asWholeNumber(given: string): number {
  if (!/^\d{1,9}$/.test(given)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(given);
}
export const wholeNumber = (placeholder: string, help: string) => parsed(asWholeNumber, placeholder, help);

function asPort(given: string): number {
  const value = asWholeNumber(given);
  if (value > 65_535) throw new InvalidArgumentError('It must be a port: 0 (any that is free) to 65535.');
  return value;
}
export const port = (help: string) => parsed(asPort, '<number>', help);

/** An editor of arguments may look for two requests whose digests begin alike: nobody finds 128 equal bits. */
export const DIGEST_CHARACTERS = 32;

/** @param wrong said where it is not hexadecimal, or shorter than `least` */
export const hex =
  (least: number, wrong: string) =>
  (given: string): string => {
    const digits = given.toLowerCase();
    if (digits.length < least || !/^[0-9a-f]{1,64}$/.test(digits)) throw new InvalidArgumentError(wrong);
    return digits;
  };

const digestOf = hex(
  DIGEST_CHARACTERS,
  'It must be a digest as shown: 64 hexadecimal characters, or at least its first 32.',
);

export const digest = (help: string) => parsed(digestOf, '<sha256>', help);

/** Parses an instant with its time zone. @returns UTC with milliseconds */
export function asTime(given: string): string {
  const ms = /^[0-9-]{10}T[0-9:.]{5,12}(?:Z|[+-][0-9]{2}:[0-9]{2})$/.test(given) ? Date.parse(given) : Number.NaN;
  if (!Number.isNaN(ms)) return new Date(ms).toISOString();
  throw new InvalidArgumentError('It must look like 2026-02-01T09:00Z or 2026-02-01T10:00+01:00.');
}
export const time = (help: string) => parsed(asTime, '<time>', help);

export type Pairs = Readonly<Record<string, string>>;

function withPair(given: string, before: Pairs = {}): Pairs {
  const at = given.indexOf('=');
  if (at < 1 || at === given.length - 1) throw new InvalidArgumentError('It must look like name=value.');
  const name = given.slice(0, at);
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError(`${name} is given twice.`);
  return { ...before, [name]: given.slice(at + 1) };
}
export const pairs = (placeholder: string, help: string) => parsed(withPair, placeholder, help);

export const GLOBAL_OPTIONS = {
  address: text('<host:port>', 'Temporal service; default: TEMPORAL_ADDRESS, the profile, localhost:7233'),
  namespace: text('<name>', 'Temporal namespace; default: TEMPORAL_NAMESPACE, the profile, `default`'),
  profile: text('<name>', 'profile of temporal.toml'),
  config: text('<file>', 'configuration; default: COUNTERSIGN_CONFIG, ./countersign.yaml'),
  key: text('<file>', 'key to sign with (trust mode signed); default: COUNTERSIGN_KEY'),
  json: flag('one JSON document on standard output, and nothing else'),
  deadline: seconds('how long to wait for an answer (default: 10)'),
};

export type GlobalOptions = Values<typeof GLOBAL_OPTIONS>;

export const RUN = one('run id');
export const CALL = one('call id, such as t2.c0');

export const actor = (who: string): OptionRow<string> => needed(text('<id>', who));
export const COMMENT = text('<text>', 'kept in the ledger');
export const DECIDER_GROUP = several('<name>', 'a group the decider belongs to');
