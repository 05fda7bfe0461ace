/** Reads the files of `deploy/` so far as tests compare and run them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const DEPLOY = fileURLToPath(new URL('../../../deploy', import.meta.url));

export interface Instruction {
  /** `COPY`, `RUN`, … */
  readonly name: string;
  readonly text: string;
  /** Words of a COPY without its options. */
  readonly words: readonly string[];
  readonly options: readonly string[];
}

/** Stages of the image, each from its FROM on. */
export function stages(): readonly (readonly Instruction[])[] {
  const found: Instruction[][] = [];
  for (const line of readDeployed('Containerfile').split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [name = '', ...words] = line.split(' ');
    if (!/^[A-Z]+$/.test(name)) throw new Error(`no instruction: ${line}`);
    if (name === 'FROM') found.push([]);
    const isOption = (word: string): boolean => word.startsWith('--');
    found.at(-1)?.push({
      name,
      text: words.join(' '),
      words: words.filter((word) => !isOption(word)),
      options: words.filter(isOption),
    });
  }
  return found;
}

/** @returns the instructions of this name in the last stage, as text */
export function told(name: string): readonly string[] {
  return (stages().at(-1) ?? []).filter((each) => each.name === name).map(({ text }) => text);
}

export function readDeployed(name: string): string {
  return readFileSync(join(DEPLOY, name), 'utf8');
}

/** Fields of a unit, `Environment` too, in their order. */
export function unit(name: string): ReadonlyMap<string, readonly string[]> {
  const fields = new Map<string, string[]>();
  for (const line of readDeployed(`systemd/${name}`).split('\n')) {
    const [, field, value = ''] = /^([A-Za-z]+)=(.*)$/.exec(line) ?? [];
    if (field !== undefined) fields.set(field, [...(fields.get(field) ?? []), value]);
  }
  return fields;
}
