/** Reads the code blocks of a page for people, so that tests run exactly what the page shows. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

export interface GuideBlock {
  /** Path from the repository root. */
  readonly page: string;
  /** Line number of the first line of code in the page. */
  readonly line: number;
  readonly text: string;
}

/** @param language pattern for the word behind the fence */
export async function blocksOf(page: string, language: string): Promise<readonly GuideBlock[]> {
  const markdown = await readFile(fileURLToPath(new URL(`../../${page}`, import.meta.url)), 'utf8');
  const fence = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms');
  return [...markdown.matchAll(fence)].map(({ index, 1: text = '' }) => ({
    page,
    line: markdown.slice(0, index).split('\n').length + 1,
    text,
  }));
}
