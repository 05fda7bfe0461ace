// The repository's source files and what each of them imports, read from the text: the architecture tests judge this,
// not what a tool made of it. Owns: which files count as source, what an import is. Does not own: which imports are
// allowed (layers.test.ts). Relies on the formatter: a statement starts its line, strings are single-quoted.
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const NOT_SOURCE = new Set(['node_modules', 'dist', 'coverage', 'docs']);
const IMPORT = /^import\s+(type\s)?(?:[^'();]*?\sfrom\s+)?'([^']+)'/gm;
const RE_EXPORT = /^export\s+(type\s)?(?:\*|\{)[^']*?\sfrom\s+'([^']+)'/gm;
/** As a value or as a type; both may stand anywhere in a line. */
const LAZY_IMPORT = /\bimport\(\s*'([^']+)'/g;

export interface Import {
  /** A path from the root (`domain/request/digest.ts`) for a relative import, else the package specifier. */
  readonly target: string;
  readonly isRelative: boolean;
  /** Erased by the compiler. `import { type X }` is not: verbatimModuleSyntax keeps the import itself. */
  readonly isTypeOnly: boolean;
  /** Loaded when it is used (`import()`). */
  readonly isLazy: boolean;
}

export interface SourceFile {
  /** From the root, with forward slashes. */
  readonly path: string;
  /** The top-level folder, or '' for a file in the root. */
  readonly folder: string;
  readonly text: string;
  readonly imports: readonly Import[];
}

/** The top-level folders that exist, hidden and generated ones left out. */
export function topFolders(): string[] {
  return readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && !NOT_SOURCE.has(entry.name))
    .map((entry) => entry.name);
}

export function sourceFiles(): SourceFile[] {
  const paths = topFolders().flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
      posix.join(folder, name.replaceAll('\\', '/')),
    ),
  );
  return [...readdirSync(ROOT), ...paths].filter((path) => /\.(ts|mjs)$/.test(path)).map(readSource);
}

/** Comments, and texts between quotes. */
const PARTS =
  /\/\*[^]*?\*\/|\/\/[^\n]*|\x27(?:[^\x27\\\n]|\\.)*\x27|\x22(?:[^\x22\\\n]|\\.)*\x22|\x60(?:[^\x60\\]|\\.)*\x60/g;

/** Texts of a source: titles of tests, and the cells of tables that make titles. Of comments and code nothing is left. */
export function textsIn(source: string): readonly string[] {
  return (source.match(PARTS) ?? []).filter((part) => !part.startsWith('/')).map((part) => part.slice(1, -1));
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(ROOT, path), 'utf8');
  return {
    path,
    folder: path.includes('/') ? path.slice(0, path.indexOf('/')) : '',
    text,
    imports: importsOf(path, text),
  };
}

export function importsOf(path: string, text: string): Import[] {
  const statements = [...text.matchAll(IMPORT), ...text.matchAll(RE_EXPORT)].map(([, type, specifier = '']) => ({
    specifier,
    isTypeOnly: type !== undefined,
    isLazy: false,
  }));
  const lazy = [...text.matchAll(LAZY_IMPORT)].map(([, specifier = '']) => ({
    specifier,
    isTypeOnly: false,
    isLazy: true,
  }));
  return [...statements, ...lazy].map(({ specifier, isTypeOnly, isLazy }) => {
    const isRelative = specifier.startsWith('.');
    return {
      target: isRelative ? posix.join(posix.dirname(path), specifier) : specifier,
      isRelative,
      isTypeOnly,
      isLazy,
    };
  });
}
