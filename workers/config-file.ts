/** Finds and reads `countersign.yaml`: a document of plain data, with every mistake of syntax at its line. */
import { readFile } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import { LineCounter, type YAMLError, parseDocument } from 'yaml';
import { CountersignError } from '../contracts/errors.ts';
import type { Environment } from './config-environment.ts';

export const CONFIG_FILE = 'countersign.yaml';
export const CONFIG_VARIABLE = 'COUNTERSIGN_CONFIG';

export interface ConfigFile {
  /** Absolute. */
  readonly path: string;
  readonly baseDirectory: string;
  /** For messages. */
  readonly what: string;
  readonly value: unknown;
}

/**
 * The file that was named, else that of `COUNTERSIGN_CONFIG`, else `countersign.yaml` of the working directory; undefined where
 * nothing was named and there is none. A named file that is not there is an error.
 */
export async function readConfigFile(
  named: string | undefined,
  environment: Environment,
  workingDirectory: string,
): Promise<ConfigFile | undefined> {
  const fromEnvironment = environment[CONFIG_VARIABLE];
  const chosen = named ?? (fromEnvironment === '' ? undefined : fromEnvironment);
  const path = resolve(workingDirectory, chosen ?? CONFIG_FILE);
  const shown = relative(workingDirectory, path);
  const what = `configuration file ${shown.startsWith('..') ? path : shown}`;
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (chosen === undefined && error.code === 'ENOENT') return undefined;
    const origin =
      named === undefined ? (chosen === undefined ? '' : `, named by ${CONFIG_VARIABLE},`) : ', named by --config,';
    const message = `The ${what}${origin} cannot be read (${error.code ?? 'error'}). Name a file that exists.`;
    throw new CountersignError('CONFIG_INVALID', message, { file: path });
  });
  if (text === undefined) return undefined;
  return { path, baseDirectory: dirname(path), what, value: parseYaml(text, what) };
}

const MOST_ALIASES = 100;

/** No error repeats a line of the file: the line may hold a secret. */
function parseYaml(text: string, what: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: true,
    version: '1.2',
    strict: true,
  });
  const problem: YAMLError | undefined = document.errors[0] ?? document.warnings[0];
  if (problem !== undefined) {
    const { line, col } = lines.linePos(problem.pos[0]);
    throw notYaml(what, `line ${line}, column ${col}: ${REASONS[problem.code] ?? `is not YAML (${problem.code})`}`);
  }
  try {
    return document.toJS({ maxAliasCount: MOST_ALIASES }) ?? {};
  } catch {
    throw notYaml(what, `it repeats itself by aliases more than ${MOST_ALIASES} times, or an alias has no anchor`);
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

function notYaml(what: string, reason: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', `The ${what} is not valid: ${reason}. Correct it and try again.`);
}
