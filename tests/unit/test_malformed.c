/* Inputs that break a text format, and odd ones that a documented rule accepts.  One table: the
 * bytes, how they are read, and either a part of the message (with its line number) or the rows
 * that come out, written as "features/labels|labels feature:value|...".  Each case is read with
 * chunks of 1 byte, of 7 and of the usual size, by 1 thread and by 3: the answer must be the same.
 */
#include "test.h"
#include "error_rig.h"

#include "base/mem.h"
#include "data/text.h"

#include <string.h>

enum { H = 1, BASE0 = 2, BASE1 = 4, KEEP2 = 8 }; /* H: no header; KEEP2: a model with 2 features */

static const struct malformed {
    const char *name, *format;
    int how;
    const char *bytes;
    size_t n;
    const char *fault, *rows;
} cases[] = {
#define BAD(name, format, how, bytes, fault)                                                       \
    {                                                                                              \
        name, format, how, bytes, sizeof(bytes) - 1, fault, NULL                                   \
    }
#define GOOD(name, format, how, bytes, rows)                                                       \
    {                                                                                              \
        name, format, how, bytes, sizeof(bytes) - 1, NULL, rows                                    \
    }
    /* headers */
    BAD("header missing", "xc", 0, "0 1:2\n",
        "t:1: expected the header 'rows features labels', found '0 1:2'"),
    BAD("header missing: hint", "xc", 0, "0 1:2\n", "--no-header"),
    BAD("header of two", "xc", 0, "1 2\n0 1:2\n", "t:1: expected the header"),
    BAD("header of four", "xc", 0, "1 2 3 4\n0 1:2\n", "t:1: expected the header"),
    BAD("header negative", "xc", 0, "-1 2 3\n0 1:2\n", "t:1: expected the header"),
    BAD("header of words", "xc", 0, "rows features labels\n0 1:2\n", "t:1: expected the header"),
    BAD("header of floats", "xc", 0, "1.0 2.0 3.0\n0 1:2\n", "t:1: expected the header"),
    BAD("header too long a number", "xc", 0, "1 9999999999999999999999 3\n",
        "t:1: expected the header"),
    BAD("header too many features", "xc", 0, "1 4000000000 3\n",
        "t:1: the header says 4000000000 features"),
    BAD("header too many labels", "xc", 0, "1 4 2147483648\n",
        "t:1: the header says 4 features and 2147483648 labels"),
    BAD("header empty line", "xc", 0, "\n1 2 3\n", "t:1: expected the header"),
    BAD("empty file", "xc", 0, "", "t:1: empty"),
    BAD("only a BOM", "xc", 0, "\xef\xbb\xbf", "t:1: empty"),
    GOOD("only a header", "xc", 0, "0 5 4\n", "5/4"),
    GOOD("only a header, no line end", "xc", 0, "0 5 4", "5/4"),
    GOOD("header with blanks", "xc", 0, "  1\t5   4 \n0 1:2\n", "5/4|0 1:2"),
    GOOD("header with CRLF", "xc", 0, "1 5 4\r\n0 1:2\r\n", "5/4|0 1:2"),
    BAD("binary header", "xc", 0,
        "\x7f"
        "ELF\2\1\1\3\n",
        "t:1: expected the header"),
    BAD("too few rows", "xc", 0, "3 5 4\n0 1:2\n1 1:2\n", "t:3: 2 rows, but the header says 3"),
    BAD("no rows", "xc", 0, "3 5 4\n", "t:1: 0 rows, but the header says 3"),
    BAD("too many rows", "xc", 0, "1 5 4\n0 1:2\n1 1:2\n",
        "t:3: more rows than the 1 that the header says"),
    BAD("an empty line too many", "xc", 0, "1 5 4\n0 1:2\n\n", "t:3: more rows"),
    BAD("too many rows before worse", "xc", 0, "1 5 4\n0 1:2\n1 1:2\nx\n", "t:3: more rows"),
    BAD("header 0 features", "xc", 0, "1 0 4\n0 1:2\n",
        "t:2: feature 1, but the header says that there are none"),
    BAD("header 0 labels", "xc", 0, "1 4 0\n0 1:2\n",
        "t:2: label 0, but the header says that there are none"),
    /* labels */
    BAD("label too large", "xc", 0, "1 5 4\n4 1:2\n",
        "t:2: label 4: expected an id in 0..3, as the header says"),
    BAD("second label too large", "xc", 0, "1 5 4\n0,9 1:2\n",
        "t:2: label 9: expected an id in 0..3"),
    BAD("label negative", "xc", 0, "1 5 4\n-1 1:2\n", "t:2: label -1: expected an id in 0..3"),
    BAD("label huge", "xc", H, "99999999999999999999999 1:2\n",
        "t:1: label 99999999999999999999999: expected an id in 0..2147483646"),
    BAD("label 2^31", "xc", H, "2147483648 1:2\n", "t:1: label 2147483648"),
    BAD("label 2^32", "xc", H, "0 1:2\n4294967296 1:2\n", "t:2: label 4294967296"),
    BAD("label 2^64", "xc", H, "18446744073709551616 1:2\n", "t:1: label 18446744073709551616"),
    BAD("label a word", "xc", H, "cat 1:2\n", "t:1: 'cat': expected labels"),
    BAD("label a float", "xc", H, "1.0 1:2\n", "t:1: '1.0': expected labels"),
    BAD("labels with a comma at the end", "xc", H, "1, 1:2\n", "t:1: '1,': expected labels"),
    BAD("labels with two commas", "xc", H, "1,,2 1:2\n", "t:1: '1,,2': expected labels"),
    BAD("labels begin with a comma", "xc", H, ",2 1:2\n", "t:1: ',2': expected labels"),
    BAD("labels by blanks", "xc", H, "1 2 1:2\n", "t:1: '2': expected feature:value"),
    BAD("label with plus", "xc", H, "+1 1:2\n", "t:1: '+1': expected labels"),
    GOOD("labels unsorted and repeated", "xc", H, "3,1,3,2,1 0:1\n", "1/4|1,2,3 0:1"),
    GOOD("labels only", "xc", H, "3\n", "0/4|3"),
    GOOD("labels and a blank", "xc", H, "3 \n", "0/4|3"),
    GOOD("base 1", "xc", H | BASE1, "1,2 1:5\n", "1/3|1,2 0:5"),
    GOOD("base 1, header", "xc", BASE1, "1 2 2\n2 2:5\n", "2/3|2 1:5"),
    BAD("base 1, label 0", "xc", BASE1, "1 2 2\n0 2:5\n", "t:2: label 0: expected an id in 1..2"),
    BAD("base 1, feature 0", "xc", BASE1, "1 2 2\n1 0:5\n", "t:2: '0:5': features start at 1"),
    BAD("base 1, feature 3 of 2", "xc", BASE1, "1 2 2\n1 3:5\n",
        "t:2: feature 3: expected an id in 1..2"),
    /* no labels, empty rows */
    GOOD("row begins with a blank", "xc", H, " 1:2 3:4\n", "4/0| 1:2 3:4"),
    GOOD("row begins with a feature", "xc", H, "1:2 3:4\n", "4/0| 1:2 3:4"),
    GOOD("row begins with a tab", "xc", H, "\t1:2\t3:4\t\n", "4/0| 1:2 3:4"),
    GOOD("empty line is a row", "xc", 0, "3 5 4\n0 1:2\n\n1 1:2\n", "5/4|0 1:2||1 1:2"),
    GOOD("blank line is a row", "xc", 0, "1 5 4\n  \t \n", "5/4|"),
    GOOD("nothing, without header", "xc", H, "", "0/0"),
    GOOD("one line end", "xc", H, "\n", "0/0|"),
    GOOD("one CRLF", "xc", H, "\r\n", "0/0|"),
    /* features */
    BAD("feature too large", "xc", 0, "1 5 4\n0 5:2\n",
        "t:2: feature 5: expected an id in 0..4, as the header says"),
    BAD("feature negative", "xc", 0, "1 5 4\n0 -3:2\n", "t:2: feature -3: expected an id in 0..4"),
    BAD("feature huge", "xc", H, "0 123456789012345678901234567890:2\n",
        "t:1: feature 123456789012345678901234567890"),
    BAD("feature 2^32", "xc", H, "0 4294967296:2\n", "t:1: feature 4294967296"),
    BAD("feature without value", "xc", H, "0 3: 4:1\n", "t:1: '3:': expected a finite number"),
    BAD("feature without value at the end", "xc", H, "0 3:", "t:1: '3:': expected a finite number"),
    BAD("feature without colon", "xc", H, "0 3\n", "t:1: '3': expected feature:value"),
    BAD("value without feature", "xc", H, "0 :1\n", "t:1: ':1': expected feature:value"),
    BAD("two colons", "xc", H, "0 3:1:2\n",
        "t:1: '3:1:2': expected feature:value and then a blank"),
    BAD("two colons in a row", "xc", H, "0 3::2\n", "t:1: '3::2': expected a finite number"),
    BAD("blank before the colon", "xc", H, "0 3 :2\n", "t:1: '3': expected feature:value"),
    BAD("commas between features", "xc", H, "0 3:2,4:1\n",
        "t:1: '3:2,4:1': expected feature:value and then a blank"),
    GOOD("features unsorted", "xc", H, "0 3:1 1:2 2:3\n", "4/1|0 1:2 2:3 3:1"),
    GOOD("features repeated", "xc", H, "0 3:1 1:2 3:3\n", "4/1|0 1:2 3:4"),
    GOOD("features that cancel", "xc", H, "0 3:1 1:2 3:-1\n", "2/1|0 1:2"),
    BAD("features sum to infinity", "xc", H, "0 1:1\n0 3:3e38 3:3e38\n",
        "t:2: the values of a repeated feature sum to infinity"),
    GOOD("zeros dropped", "xc", H, "0 1:0 2:0.0 3:-0 4:0e5 5:1\n", "6/1|0 5:1"),
    GOOD("only a zero", "xc", H, "0 1:0\n", "0/1|0"),
    BAD("feature hex", "xc", H, "0 0x1:2\n", "t:1: '0x1:2': expected feature:value"),
    GOOD("model with fewer features", "xc", KEEP2, "2 5 4\n0 1:2 2:1 4:1\n3 4:1\n", "2/4|0 1:2|3"),
    BAD("model, and beyond the header", "xc", KEEP2, "1 5 4\n0 1:2 7:1\n", "t:2: feature 7"),
    /* values */
    BAD("NaN", "xc", H, "0 1:1\n0 3:nan\n", "t:2: '3:nan': expected a finite number"),
    BAD("NaN by capitals", "xc", H, "0 3:NaN\n", "t:1: '3:NaN': expected a finite number"),
    BAD("Inf", "xc", H, "0 3:inf\n", "t:1: '3:inf': expected a finite number"),
    BAD("-Infinity", "xc", H, "0 3:-Infinity\n", "t:1: '3:-Infinity': expected a finite number"),
    BAD("1e400", "xc", H, "0 3:1e400\n", "t:1: '3:1e400': expected a finite number"),
    BAD("1e39", "xc", H, "0 3:1e39\n", "t:1: '3:1e39': expected a finite number"),
    BAD("-1e999999999999", "xc", H, "0 3:-1e999999999999\n", "t:1: '3:-1e999999999999': expected"),
    GOOD("largest float", "xc", H, "0 3:3.4028235e38\n", "4/1|0 3:3.40282e+38"),
    GOOD("1e-400 is 0", "xc", H, "0 1:1 3:1e-400\n", "2/1|0 1:1"),
    GOOD("smallest float", "xc", H, "0 0:1e-45\n", "1/1|0 0:1.4013e-45"),
    BAD("hex value", "xc", H, "0 3:0x10\n", "t:1: '3:0x10': expected feature:value and then"),
    BAD("word as value", "xc", H, "0 3:many\n", "t:1: '3:many': expected a finite number"),
    BAD("exponent without digits", "xc", H, "0 3:1e\n", "t:1: '3:1e': expected a finite number"),
    BAD("exponent with sign only", "xc", H, "0 3:1e+ 4:1\n",
        "t:1: '3:1e+': expected a finite number"),
    BAD("point alone", "xc", H, "0 3:.\n", "t:1: '3:.': expected a finite number"),
    BAD("two points", "xc", H, "0 3:1.2.3\n", "t:1: '3:1.2.3': expected feature:value and then"),
    BAD("minus alone", "xc", H, "0 3:-\n", "t:1: '3:-': expected a finite number"),
    BAD("decimal comma", "xc", H, "0 3:1,5\n", "t:1: '3:1,5': expected feature:value and then"),
    GOOD("points at the ends", "xc", H, "0 0:.5 1:5. 2:+.5e1\n", "3/1|0 0:0.5 1:5 2:5"),
    GOOD("negative value", "xc", H, "0 0:-1.25e2\n", "1/1|0 0:-125"),
    GOOD("many digits", "xc", H, "0 0:0.1000000000000000000000000000000000000000000000001\n",
         "1/1|0 0:0.1"),
    GOOD("long whole number", "xc", H, "0 0:100000000000000000000000000000\n", "1/1|0 0:1e+29"),
    /* bytes */
    GOOD("CRLF", "xc", H, "0 1:2\r\n1 1:3\r\n", "2/2|0 1:2|1 1:3"),
    BAD("CR alone", "xc", H, "0 1:2\r1 1:3\n", "t:1: '1:2': a carriage return follows"),
    BAD("CR alone after a label", "xc", H, "0\r1\n", "t:1: '0': a carriage return follows"),
    GOOD("BOM", "xc", 0,
         "\xef\xbb\xbf"
         "1 5 4\n0 1:2\n",
         "5/4|0 1:2"),
    BAD("BOM in the middle", "xc", H,
        "0 1:2\n\xef\xbb\xbf"
        "0 1:2\n",
        "t:2: '<U+FEFF>0': expected labels"),
    GOOD("no final line end", "xc", 0, "1 5 4\n0 1:2", "5/4|0 1:2"),
    GOOD("CR at the very end", "xc", 0, "1 5 4\n0 1:2\r", "5/4|0 1:2"),
    BAD("NUL in a row", "xc", H, "0 1:2\n0 1\0:2\n0 1:2\n", "t:2: a NUL byte"),
    BAD("NUL at the end", "xc", H, "0 1:2\n\0", "t:2: a NUL byte"),
    BAD("NUL in the header", "xc", 0, "1 5\0 4\n0 1:2\n", "t:1: a NUL byte"),
    BAD("NUL after an error", "xc", H, "0 x\n0 1\0:2\n", "t:1: 'x': expected feature:value"),
    BAD("NUL before an error", "xc", H, "0 1:1\n\0\n0 x\n", "t:2: a NUL byte"),
    BAD("UTF-16", "xc", 0,
        "\xff\xfe"
        "1\0 \0005\0 \0004\0\n\0",
        "t:1: a NUL byte"),
    BAD("binary", "xc", H, "0 1:2\n\x80\x81\x82\n", "t:2: '?\?\?': expected labels"),
    BAD("first of two errors", "xc", H, "0 1:2\n0 a\n0 b\n0 c\n",
        "t:2: 'a': expected feature:value"),
    BAD("a long token is cut in the message", "xc", H,
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "aaaaaaaa...': expected"),
    BAD("gzip cut", "xc", H, "\x1f\x8b\x08\0\0\0\0\0\0\3", "t:1: the gzip data ends too early"),
    BAD("gzip nonsense", "xc", H, "\x1f\x8b\x08\0\0\0\0\0\0\3garbage!", "t:1: the gzip data"),
    BAD("gzip magic only", "xc", H, "\x1f\x8b", "t:1: the gzip data ends too early"),
    BAD("zstd nonsense", "xc", H, "\x28\xb5\x2f\xfdgarbage", "t:1: the zstd data"),
    BAD("zstd magic only", "xc", H, "\x28\xb5\x2f\xfd", "t:1: the zstd data ends too early"),
    /* LibSVM */
    GOOD("plain row", "libsvm", 0, "3 1:0.5 4:2\n", "4/4|3 0:0.5 3:2"),
    BAD("feature 0", "libsvm", 0, "3 1:1\n3 0:0.5\n",
        "t:2: '0:0.5': features start at 1 here; pass --index-base 0"),
    GOOD("feature 0, base 0", "libsvm", BASE0, "3 0:0.5\n", "1/4|3 0:0.5"),
    GOOD("several labels", "libsvm", 0, "3,0 1:0.5\n", "1/4|0,3 0:0.5"),
    GOOD("whole float label", "libsvm", 0, "2.0,1e0 1:0.5\n", "1/3|1,2 0:0.5"),
    BAD("fractional label", "libsvm", 0, "1 1:1\n2.5 1:0.5\n",
        "t:2: '2.5': a label must be a whole number or a name"),
    BAD("huge float label", "libsvm", 0, "1e30 1:0.5\n",
        "t:1: '1e30': a label must be a whole number"),
    BAD("NaN label", "libsvm", 0, "1 1:1\nnan 1:0.5\n",
        "t:2: 'nan': a label that is a name, but on line 1 there is a number"),
    GOOD("plus label", "libsvm", 0, "+1 1:0.5\n", "1/2|1 0:0.5"),
    GOOD("minus label", "libsvm", 0, "+1 1:1\n-1 1:0.5\n1.0 1:1\n", "1/2|1 0:1|0 0:0.5|1 0:1"),
    GOOD("word label", "libsvm", 0, "spam 1:0.5\nham,3d 1:1\nspam 2:1\n",
         "2/3|0 0:0.5|1,2 0:1|0 1:1"),
    GOOD("word label alone", "libsvm", 0, "spam\n", "0/1|0"),
    BAD("word, then number", "libsvm", 0, "spam 1:0.5\n\n3 1:1\nx:1\n",
        "t:3: '3': a label that is a number, but on line 1 there is a name"),
    BAD("a mix on a line", "libsvm", 0, "1,spam 1:0.5\n", "t:1: 'spam': a label that is a name"),
    BAD("minus, then word", "libsvm", 0, "-1 1:0.5\n1 1:1\nx 1:1\n", "t:3: 'x': a label"),
    BAD("word with a colon", "libsvm", 0, "a:b 1:0.5\n", "t:1: 'a:b': expected a label"),
    BAD("fault before a mix", "libsvm", 0, "1 1:1\n1 1:x\nspam 1:1\n", "t:2: '1:x': expected"),
    BAD("fault after a mix", "libsvm", 0, "1 1:1\nspam 1:1\n1 1:x\n", "t:2: 'spam': a label"),
    BAD("carriage return in a word", "libsvm", 0, "a\rb 1:1\n", "t:1: 'a': a carriage return"),
    GOOD("far features", "libsvm", 0, "1 2000000000:1 7:1\n0 1:1\n", "3/2|1 1:1 2:1|0 0:1"),
    GOOD("far labels", "libsvm", 0, "2000000000 1:1\n7,2000000000 1:1\n", "1/2|1 0:1|0,1 0:1"),
    GOOD("far features of a model", "libsvm", KEEP2, "1 2000000000:1 1:1\n", "1/2|1 0:1"),
    GOOD("far both", "xc", H, "2000000000 1999999999:1\n 5:1\n", "2/1|0 1:1| 0:1"),
    GOOD("far header", "xc", 0, "1 2000000000 1000000000\n7 5:1\n", "1/1|0 0:1"),
    BAD("far header, too few rows", "xc", 0, "2 2000000000 5\n1 5:1\n", "t:2: 1 rows, but"),
    BAD("far header, id beyond it", "xc", 0, "1 2000000000 5\n1 2000000000:1\n",
        "t:2: feature 2000000000: expected an id in 0..1999999999, as the header says"),
    BAD("huge label", "libsvm", 0, "4294967296 1:0.5\n",
        "t:1: label 4294967296: expected an id in 0.."),
    BAD("comma at the end", "libsvm", 0, "1, 1:0.5\n", "t:1: '': an empty label"),
    GOOD("comment", "libsvm", 0, "# made by hand\n1 1:0.5 # first\n  # indented\n2 1:1#x\n",
         "1/3|1 0:0.5|2 0:1"),
    GOOD("comment with nonsense", "libsvm", 0, "1 1:0.5 #\xff : qid:1\n", "1/2|1 0:0.5"),
    BAD("line numbers count comments", "libsvm", 0, "#\n\n1 1:x\n",
        "t:3: '1:x': expected a finite number"),
    BAD("qid", "libsvm", 0, "1 qid:3 1:0.5\n", "t:1: 'qid:3': ranking data (qid) is not read"),
    GOOD("empty lines skipped", "libsvm", 0, "\n1 1:0.5\n\r\n\n2 1:1\n\n", "1/3|1 0:0.5|2 0:1"),
    GOOD("a blank is an empty row", "libsvm", 0, "1 1:0.5\n \n", "1/2|1 0:0.5|"),
    GOOD("no label", "libsvm", 0, " 2:1\n2:3\n", "2/0| 1:1| 1:3"),
    GOOD("label only", "libsvm", 0, "5\n", "0/6|5"),
    GOOD("nothing", "libsvm", 0, "", "0/0"),
    GOOD("unsorted and repeated", "libsvm", 0, "1 3:1 1:1 3:1\n", "3/2|1 0:1 2:2"),
    BAD("negative feature", "libsvm", 0, "1 -3:1\n", "t:1: feature -3: expected an id in 1.."),
    BAD("inf", "libsvm", 0, "1 3:inf\n", "t:1: '3:inf': expected a finite number"),
    BAD("precomputed kernel", "libsvm", 0, "1 0:1 1:0.5\n", "t:1: '0:1': features start at 1"),
    GOOD("model with fewer features", "libsvm", KEEP2, "1 1:1 2:1 3:1\n", "2/2|1 0:1 1:1"),
    GOOD("CRLF", "libsvm", 0, "1 1:1\r\n2 1:1\r\n", "1/3|1 0:1|2 0:1"),
    BAD("NUL", "libsvm", 0, "1 1:1\n2\0 1:1\n", "t:2: a NUL byte"),
    BAD("NUL in a comment", "libsvm", 0, "1 1:1 # \0\n", "t:1: a NUL byte"),
    /* probing */
    GOOD("probe: xc", NULL, 0, "1 5 4\n0 1:2\n", "5/4|0 1:2"),
    GOOD("probe: xc with BOM", NULL, 0,
         "\xef\xbb\xbf"
         "1 5 4\r\n0 1:2\r\n",
         "5/4|0 1:2"),
    GOOD("probe: libsvm", NULL, 0, "0 1:2\n", "1/1|0 0:2"),
    GOOD("probe: libsvm, no label", NULL, 0, " 1:2\n", "1/0| 0:2"),
    GOOD("probe: no header", NULL, H, "0 1:2\n", "2/1|0 1:2"),
    GOOD("probe: libsvm, words as labels", NULL, 0, "spam,x 1:2 4:1\n", "4/2|0,1 0:2 3:1"),
    GOOD("probe: words, not labels", NULL, 0, "__label__time 12:30\n", "1/1|0 0:1"),
    BAD("probe: prose with a time", NULL, 0, "at 12:30 we met\n", "no known format"),
    BAD("probe: empty", NULL, 0, "", "t:1: empty, expected rows"),
    BAD("probe: prose", NULL, 0, "It was a dark and stormy night;\n",
        "t:1: 'It was a dark and stormy night;' is the beginning of no known format"),
    BAD("probe: cut gzip", NULL, 0, "\x1f\x8b\x08\0", "t: the gzip data ends too early"),
};

static void show(char *to, size_t room, const struct wisp_data *d)
{
    size_t n = (size_t)snprintf(to, room, "%zu/%zu", d->n_features, d->n_labels);
    for (size_t b = 0; b < d->n_blocks; b++) {
        const struct wisp_rows *r = &d->blocks[b];
        for (size_t i = 0; i < r->n && n < room; i++) {
            n += (size_t)snprintf(to + n, room - n, "|");
            for (size_t k = r->yp[i]; k < r->yp[i + 1] && n < room; k++)
                n += (size_t)snprintf(to + n, room - n, k > r->yp[i] ? ",%d" : "%d", r->yi[k]);
            for (size_t k = r->xp[i]; k < r->xp[i + 1] && n < room; k++)
                n += (size_t)snprintf(to + n, room - n, " %d:%g", r->xi[k], (double)r->xv[k]);
        }
    }
}

static void check(const struct malformed *m, struct wisp_context *ctx)
{
    struct wisp_read_options o = { .format = m->format,
                                   .index_base = m->how & BASE0   ? 0
                                                 : m->how & BASE1 ? 1
                                                                  : -1,
                                   .no_header = m->how & H,
                                   .n_features = m->how & KEEP2 ? 2 : 0 };
    struct wisp_data *d;
    wisp_error err = { 0 };
    char rows[1000] = "";
    wisp_status st = wisp_data_read_text(&d, ctx, m->bytes, m->n, "t", &o, &err);
    if (m->fault) {
        CHECK(st == WISP_EFORMAT && !d, "%s: status %d", m->name, st);
        CHECK(strstr(err.text, m->fault), "%s: got \"%s\", expected \"%s\"", m->name, err.text,
              m->fault);
        CHECK(!strpbrk(err.text, "\n\r\t"), "%s: not one line: \"%s\"", m->name, err.text);
        CHECK(place_agrees(&err), "%s: line %zu, %u and %u bytes: \"%s\"", m->name, err.line,
              err.file_bytes, err.place_bytes, err.text);
    } else {
        CHECK(st == WISP_OK, "%s: %d %s", m->name, st, err.text);
        if (d) show(rows, sizeof rows, d);
        CHECK(strcmp(rows, m->rows) == 0, "%s: got \"%s\", expected \"%s\"", m->name, rows,
              m->rows);
    }
    wisp_data_free(d);
}

int main(void)
{
    struct wisp_context one = { 0 }, three = { 0 };
    wisp_error err;
    if (wisp_pool_create(&three.pool, 3, &err) != WISP_OK) return 1;
    const size_t sizes[] = { (size_t)4 << 20, 1, 7 };
    long before = wisp_mem_live;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[100];
        snprintf(name, sizeof name, "malformed %s: %s", cases[i].format ? cases[i].format : "-",
                 cases[i].name);
        TEST(name);
        for (int k = 0; k < 3; k++) {
            wisp_text_chunk = sizes[k];
            check(&cases[i], &one);
            check(&cases[i], &three);
        }
        CHECK(wisp_mem_live == before, "%ld blocks leaked", wisp_mem_live - before);
        test_close();
    }
    wisp_pool_free(three.pool);
    return test_end();
}
