/**
 * Loads the configuration of a process: one file, checked as a whole before anything is started.
 *
 * 1. `countersign.yaml` is a document of plain data; every mistake of syntax is reported at its line.
 * 2. `${NAME}` and `${NAME:-default}` are substituted once, after parsing, and in string values only: the content of a
 *    variable never becomes a field, a list or a comment, and a secret that holds `${…}` stays as it is.
 * 3. An error names the variable and the path, never a value.
 * 4. What a variable puts into a header of a server is remembered: it counts as a secret whatever the header is called
 *    (`activities/tokens/configured.ts`, INV-S1).
 */
import { readFile } from 'node:fs/promises';
import { dirname, relative, resolve, sep } from 'node:path';
import type { YAMLError } from 'yaml';
import type { HeaderSecrets } from '../../activities/tokens/configured.ts';
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { parseAs, pathText } from '../../contracts/schemas/parse.ts';

export interface LoadedConfig {
  readonly config: Config;
  /** Absent if the configuration came from no file. */
  readonly headerSecrets?: HeaderSecrets;
  /** Absolute; undefined if there is no file and all values are defaults. */
  readonly path: string | undefined;
  /** The folder to which paths of the configuration are relative. */
  readonly baseDirectory: string;
  /** Where its variables come from, also later: when the policy of the file changes. Default: that of the process. */
  readonly environment?: Environment;
}

/**
 * @param path `--config`; else `COUNTERSIGN_CONFIG`, else `./countersign.yaml`, else the defaults
 * @throws CountersignError `CONFIG_INVALID` or `AUTHORIZATION_IN_HEADERS`, naming file and path
 */
export async function loadConfig(
  path?: string,
  environment: Environment = process.env,
  workingDirectory: string = process.cwd(),
): Promise<LoadedConfig> {
  const file = await readConfigFile(path, environment, workingDirectory);
  const what = file?.what ?? `configuration (there is no ${CONFIG_FILE})`;
  const headerSecrets = new Map<string, string[]>();
  const value = substitute(file?.value ?? {}, environment, what, [], ([part, server, field], text) => {
    if (part !== 'servers' || field !== 'headers' || typeof server !== 'string') return;
    headerSecrets.set(server, [...(headerSecrets.get(server) ?? []), text]);
  });
  const config = parseAs(Config, value, 'CONFIG_INVALID', what);
  // Commands of clients read files by this module, too, and need none of what the check loads.
  const { checkConfig } = await import('./checks.ts');
  checkConfig(config, what);
  return {
    config,
    headerSecrets,
    path: file?.path,
    baseDirectory: file?.baseDirectory ?? workingDirectory,
    environment,
  };
}

export const CONFIG_FILE = 'countersign.yaml';
export const CONFIG_VARIABLE = 'COUNTERSIGN_CONFIG';

/**
 * Reads the named file, else that of `COUNTERSIGN_CONFIG`, else `countersign.yaml` of the working directory. Returns
 * undefined if nothing was named and there is none. A named file that does not exist is an error.
 * @returns `path` is absolute; `what` names the file in messages
 */
export async function readConfigFile(named: string | undefined, environment: Environment, workingDirectory: string) {
  const fromEnvironment = environment[CONFIG_VARIABLE];
  const chosen = named ?? (fromEnvironment === '' ? undefined : fromEnvironment);
  const path = resolve(workingDirectory, chosen ?? CONFIG_FILE);
  const shown = relative(workingDirectory, path);
  // From the root, where services are started, a relative path looks like one from anywhere.
  const isNear = !shown.startsWith('..') && dirname(workingDirectory) !== workingDirectory;
  const what = `configuration file ${isNear ? shown : path}`;
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (chosen === undefined && error.code === 'ENOENT') return undefined;
    const origin =
      named === undefined ? (chosen === undefined ? '' : `, named by ${CONFIG_VARIABLE},`) : ', named by --config,';
    const message = `The ${what}${origin} cannot be read (${error.code ?? 'error'}). Name a file that this user may read.`;
    throw new CountersignError('CONFIG_INVALID', message, { file: path }, { cause: error });
  });
  if (text === undefined) return undefined;
  const value = (await parseYaml(text, (reason) => refusal(`${what} ${reason}`))) ?? {};
  return { path, baseDirectory: dirname(path), what, value };
}

const MOST_ALIASES = 100;

/**
 * No error repeats a line of the text: the line may hold a secret.
 * @param refuse makes the error; the reason continues the name of the text
 * @param isKept says whether a number means what is written
 */
export async function parseYaml(
  text: string,
  refuse: (reason: string) => CountersignError,
  isKept: (source: string, value: number) => boolean = () => true,
): Promise<unknown> {
  const { LineCounter, parseDocument, visit } = await import('yaml');
  const lines = new LineCounter();
  const strict = { prettyErrors: false, uniqueKeys: true, version: '1.2', strict: true } as const;
  const document = parseDocument(text, { ...strict, lineCounter: lines });
  const at = (offset = 0): string => {
    const { line, col } = lines.linePos(offset);
    return `line ${line}, column ${col}`;
  };
  const problem: YAMLError | undefined = document.errors[0] ?? document.warnings[0];
  if (problem !== undefined)
    throw refuse(`is not valid: ${at(problem.pos[0])}: ${REASONS[problem.code] ?? `is not YAML (${problem.code})`}`);
  visit(document, {
    Scalar: (_key, { value, source = '', range }) => {
      if (typeof value !== 'number' || isKept(source, value)) return;
      throw refuse(
        `holds a number that cannot be kept as it is written: ${at(range?.[0])}. Where it is an id, put it in quotes`,
      );
    },
  });
  try {
    return document.toJS({ maxAliasCount: MOST_ALIASES });
  } catch {
    throw refuse(
      `is not valid: it repeats itself by aliases more than ${MOST_ALIASES} times, or an alias has no anchor`,
    );
  }
}

const REASONS: Partial<Record<YAMLError['code'], string>> = {
  DUPLICATE_KEY: 'the field stands here a second time',
  TAB_AS_INDENT: 'a tab is used to indent; use spaces',
  BAD_INDENT: 'the indentation is wrong',
  MULTIPLE_DOCS: 'a second document begins; there must be one',
  TAG_RESOLVE_FAILED: 'tags (words with !) are not known here',
  MISSING_CHAR: 'a character is missing, such as a closing quote or bracket, or the colon after a field name',
};

/** @param what names the file */
export function notValid(what: string, reason: string, facts?: ErrorFacts): CountersignError {
  return refusal(`${what} is not valid: ${reason}`, facts);
}

function refusal(what: string, facts: ErrorFacts = {}): CountersignError {
  return new CountersignError('CONFIG_INVALID', `The ${what}. Correct it and try again.`, facts);
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** `$${NAME}` stands for the text `${NAME}`. */
const REFERENCE = /\$(\$\{)|\$\{([^}]*)\}?/g;
const CONTENT = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([\s\S]*))?$/;

/**
 * @param what names the file in errors
 * @param onFound hears of each text that a variable of the environment has put into the value at a path
 */
export function substitute(
  value: unknown,
  environment: Environment,
  what: string,
  path: readonly PropertyKey[] = [],
  onFound?: (path: readonly PropertyKey[], text: string) => void,
): unknown {
  const invalid = (at: readonly PropertyKey[], reason: string): CountersignError =>
    notValid(what, `${pathText(at)} ${reason}`, { path: pathText(at) });
  const textAt = (at: readonly PropertyKey[], text: string): string =>
    text.replaceAll(REFERENCE, (whole, escaped: string | undefined, content: string | undefined) => {
      if (escaped !== undefined) return escaped;
      const [, name, otherwise] = whole.endsWith('}') ? (CONTENT.exec(content ?? '') ?? []) : [];
      if (name === undefined) {
        const reason =
          'has a reference that is not of the form ${NAME} or ${NAME:-default}; write $${ for the text itself';
        throw invalid(at, reason);
      }
      const found = Object.hasOwn(environment, name) ? environment[name] : undefined;
      // A default also replaces an empty variable, as in a shell.
      const chosen = otherwise === undefined ? found : found || otherwise;
      if (chosen === undefined) throw invalid(at, `needs the environment variable ${name}, which is not set`);
      if (chosen === found) onFound?.(at, chosen);
      return chosen;
    });
  const valueAt = (at: readonly PropertyKey[], inner: unknown): unknown => {
    if (typeof inner === 'string') return textAt(at, inner);
    if (Array.isArray(inner)) return inner.map((item: unknown, index) => valueAt([...at, index], item));
    if (inner === null || typeof inner !== 'object') return inner;
    // fromEntries defines own properties, so a key `__proto__` stays a key and is refused as unknown.
    const entries = Object.entries(inner).map(([key, item]: [string, unknown]) => [key, valueAt([...at, key], item)]);
    return Object.fromEntries(entries) as unknown;
  };
  return valueAt(path, value);
}

/** True if a folder is inside the configuration's own: such a folder may be made; elsewhere a volume may be meant. */
export function isBeside(baseDirectory: string, root: string): boolean {
  return root.startsWith(resolve(baseDirectory) + sep);
}

/** `runs`: workflows, models, policy. `tools`: the queues of configured servers. `all`: both in this process. */
export type WorkerRole = 'all' | 'runs' | 'tools';

const NOTHING_TO_SERVE =
  'A worker with role tools has nothing to serve: no configured server has a taskQueue of its own. Give each server one, or start workers with role all.';

/** @throws CountersignError `CONFIG_INVALID` if the worker would poll none */
export function queuesOf(config: Config, role: WorkerRole): string[] {
  const ofServers = Object.values(config.servers).flatMap((server) => queueOf(server, config) ?? []);
  const queues = [...(role === 'tools' ? [] : [config.taskQueue]), ...(role === 'runs' ? [] : new Set(ofServers))];
  if (queues.length === 0) throw new CountersignError('CONFIG_INVALID', NOTHING_TO_SERVE, { path: 'servers' });
  return queues;
}

/** Warns of calls that only a worker with role `all` can serve: those of servers without a queue of their own. */
export function roleWarnings(config: Config, role: WorkerRole): string[] {
  if (role === 'all') return [];
  return Object.entries(config.servers)
    .filter(([, server]) => queueOf(server, config) === undefined)
    .map(
      ([name]) =>
        `${pathText(['servers', name])} has no taskQueue of its own: with role ${role} nobody serves its calls. Give it one, or start workers with role all.`,
    );
}

/** Returns a queue only if it is not the run's. */
function queueOf({ taskQueue }: Config['servers'][string], config: Config): string | undefined {
  return taskQueue === config.taskQueue ? undefined : taskQueue;
}
