/** The code blocks of a page for people, as they stand there: what a page shows is what tests run. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

export interface GuideBlock {
  /** From the repository root. */
  readonly page: string;
  /** In the page, of the first line of code. */
  readonly line: number;
  readonly text: string;
}

/** @param language what stands behind the fence, as a pattern */
export async function blocksOf(page: string, language: string): Promise<readonly GuideBlock[]> {
  const markdown = await readFile(fileURLToPath(new URL(`../../${page}`, import.meta.url)), 'utf8');
  const fence = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms');
  return [...markdown.matchAll(fence)].map(({ index, 1: text = '' }) => ({
    page,
    line: markdown.slice(0, index).split('\n').length + 1,
    text,
  }));
}
