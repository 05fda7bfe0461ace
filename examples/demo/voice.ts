/** How the demo speaks. */
import { styleText } from 'node:util';

type Shade = 'bold' | 'dim' | 'green' | 'yellow' | 'red' | 'cyan';

const colored = process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === '' && process.env['TERM'] !== 'dumb';

export function paint(shade: Shade, text: string): string {
  return colored ? styleText(shade, text) : text;
}

export function say(text = ''): void {
  process.stdout.write(`${text}\n`);
}

export function heading(text: string): void {
  say(`\n${paint('bold', text)}\n`);
}

/** Aligned, without those that have no value. */
export function facts(rows: Readonly<Record<string, string | undefined>>): void {
  const width = Math.max(...Object.keys(rows).map((label) => label.length));
  for (const [label, value] of Object.entries(rows)) {
    if (value !== undefined) say(`  ${paint('dim', label.padEnd(width))}  ${value}`);
  }
}
