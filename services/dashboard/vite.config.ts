import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'

/** Puts a smaller copy beside each file, so that admin compresses nothing while it serves. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    writeBundle({ dir = '' }) {
      for (const file of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
        if (!/\.(html|js|css)$/.test(file)) continue
        const path = join(dir, file)
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }))
      }
    },
  }
}

export default defineConfig({
  root: import.meta.dirname,
  plugins: [compressed()],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../dist/services/dashboard',
    emptyOutDir: true,
    target: 'es2022',
    // Inlined assets would need a policy that allows data: for scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
})
